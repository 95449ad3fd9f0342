"""Partitions: contigs come from the catalogue (read once, when definitions are built), releases are registered."""

from __future__ import annotations

import dagster as dg

from genolewm_assets.defs.resources import configured_catalog
from genolewm_assets.sources.catalogs import load_catalog

_CATALOG = load_catalog(configured_catalog())

contig_partitions = dg.StaticPartitionsDefinition(list(_CATALOG.contigs.names))
linear_contig_partitions = dg.StaticPartitionsDefinition([contig.name for contig in _CATALOG.contigs.linear])
circular_contig_names = [contig.name for contig in _CATALOG.contigs if contig.circular]
corpus_source_partitions = dg.StaticPartitionsDefinition(list(_CATALOG.corpus.sources))
clinvar_release_partitions = dg.DynamicPartitionsDefinition(name="clinvar_release")


def on_same_key(asset: str) -> dg.AssetDep:
    """Depend on the partition of ``asset`` that has the same key."""
    return dg.AssetDep(asset.split("/"), partition_mapping=dg.IdentityPartitionMapping())


def on_every_partition(asset: str) -> dg.AssetDep:
    """Depend on all partitions of ``asset``, or on an unpartitioned one."""
    return dg.AssetDep(asset.split("/"), partition_mapping=dg.AllPartitionMapping())


def on_circular_contigs(asset: str) -> dg.AssetDep:
    """Depend on the partitions of ``asset`` that are circular contigs."""
    mapping = dg.SpecificPartitionsPartitionMapping(circular_contig_names)
    return dg.AssetDep(asset.split("/"), partition_mapping=mapping)
