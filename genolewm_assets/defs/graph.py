"""Every asset of the graph, for those that look at all of it."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from genolewm_assets.defs import (
    clinvar,
    clinvar_changes,
    corpus,
    embeddings,
    gnomad,
    holdouts,
    mito,
    mito_variants,
    observations,
    packages,
    reference,
    windows,
)
from genolewm_assets.defs.gates import BYTES_MATCH_MANIFEST
from genolewm_assets.store import ArtefactId

ASSETS = dg.load_assets_from_modules(
    [
        reference,
        gnomad,
        clinvar,
        clinvar_changes,
        windows,
        corpus,
        embeddings,
        holdouts,
        packages,
        mito,
        mito_variants,
        observations,
    ]
)


def asset_specs() -> Iterator[dg.AssetSpec]:
    """Yield what each asset states of itself."""
    for asset in ASSETS:
        if isinstance(asset, dg.AssetsDefinition):
            yield from asset.specs


def gated_partitions(instance: dg.DagsterInstance) -> Iterator[ArtefactId]:
    """Yield every registered partition of every asset that publishes files with a manifest."""
    gated = {
        check.asset_key
        for asset in ASSETS
        if isinstance(asset, dg.AssetsDefinition)
        for check in asset.check_keys
        if check.name == BYTES_MATCH_MANIFEST
    }
    for spec in asset_specs():
        if spec.key in gated:
            for partition in partition_keys(spec, instance):
                yield ArtefactId("/".join(spec.key.path), partition)


def partition_keys(spec: dg.AssetSpec, instance: dg.DagsterInstance) -> list[str | None]:
    """Return the registered partitions of an asset; one None for an asset without partitions."""
    partitions = spec.partitions_def
    return [None] if partitions is None else list(partitions.get_partition_keys(dynamic_partitions_store=instance))
