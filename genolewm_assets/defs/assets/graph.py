"""The list of all assets, in dependency order, for jobs, tests and documentation."""

from __future__ import annotations

from collections.abc import Mapping

from genolewm_assets.defs.assets.clinvar import clinvar_release, clinvar_shard
from genolewm_assets.defs.assets.clinvar_changes import clinvar_changes
from genolewm_assets.defs.assets.corpus import corpus_records, corpus_windows
from genolewm_assets.defs.assets.embeddings import embeddings_cache, embeddings_corpus
from genolewm_assets.defs.assets.forensic import forensic_profiles
from genolewm_assets.defs.assets.gnomad import gnomad_shard
from genolewm_assets.defs.assets.holdouts import holdouts_manifest
from genolewm_assets.defs.assets.mito import mito_genomes, mito_tokens
from genolewm_assets.defs.assets.mito_variants import mito_variants
from genolewm_assets.defs.assets.observations import (
    corpus_source,
    encoder_source,
    forensic_source,
    gnomad_source,
    haplotype_source,
    mito_source,
    reference_source,
)
from genolewm_assets.defs.assets.packages.audit import packages_audit
from genolewm_assets.defs.assets.packages.current import packages_current
from genolewm_assets.defs.assets.packages.evaluation import packages_evaluation
from genolewm_assets.defs.assets.packages.frozen import tuples_frozen
from genolewm_assets.defs.assets.packages.split import packages_split
from genolewm_assets.defs.assets.reference import reference_genome
from genolewm_assets.defs.assets.windows import windows_index
from genolewm_assets.defs.runtime import GatedAsset, PublishingAsset
from genolewm_assets.defs.status import status_asset

DECLARATIONS = (
    reference_source,
    gnomad_source,
    haplotype_source,
    mito_source,
    corpus_source,
    encoder_source,
    forensic_source,
    reference_genome,
    windows_index,
    corpus_records,
    corpus_windows,
    gnomad_shard,
    clinvar_release,
    clinvar_shard,
    clinvar_changes,
    embeddings_cache,
    embeddings_corpus,
    holdouts_manifest,
    packages_split,
    packages_audit,
    packages_current,
    tuples_frozen,
    packages_evaluation,
    mito_genomes,
    mito_tokens,
    mito_variants,
    forensic_profiles,
)

#: Assets that publish files with a manifest, by key.
GATED: Mapping[str, GatedAsset] = {asset.key: asset for asset in DECLARATIONS if isinstance(asset, GatedAsset)}

#: Assets that publish something, by key: the gated ones and the pointer to the package in use.
PUBLISHING: Mapping[str, PublishingAsset] = {
    asset.key: asset for asset in DECLARATIONS if isinstance(asset, PublishingAsset)
}

#: Tells the status of the others. Nothing reads it, and no job that builds the others includes it.
platform_status = status_asset(PUBLISHING)

#: Dagster definitions of all assets.
ASSETS = [asset.definition() for asset in (*DECLARATIONS, platform_status)]


def leading_to(*assets: GatedAsset) -> set[str]:
    """Return the keys of gated assets and of all gated assets upstream of them."""
    read = {dep.asset_key.to_user_string() for asset in assets for dep in asset.deps}
    return {asset.key for asset in assets}.union(*(leading_to(GATED[key]) for key in GATED.keys() & read))
