"""Partitions: contigs come from the catalogue (read once, when definitions are built), releases are registered.

Also how dependencies between them are mapped, and after how long without a new ClinVar release people are warned.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import dagster as dg

from genolewm_assets.defs.display import Keyed
from genolewm_assets.defs.runtime.settings import configured_catalog
from genolewm_assets.sources.catalog import Catalog, load_catalog

_CATALOG = load_catalog(configured_catalog())

clinvar_release_partitions = dg.DynamicPartitionsDefinition(name="clinvar_release")


@dataclass(frozen=True, slots=True, eq=False)
class Partitioning:
    """What an asset is partitioned by.

    Attributes
    ----------
    by
        Value of the tag by which people select assets that can be materialised together, for one partition.
    """

    by: str
    definition: dg.PartitionsDefinition | None = None

    def keys(self, instance: dg.DagsterInstance) -> list[str | None]:
        """Return the registered partitions; one None for an asset without partitions."""
        if self.definition is None:
            return [None]
        return list(self.definition.get_partition_keys(dynamic_partitions_store=instance))


NOT_PARTITIONED = Partitioning("nothing")
BY_CONTIG = Partitioning("contig", dg.StaticPartitionsDefinition(list(_CATALOG.contigs.names)))
BY_LINEAR_CONTIG = Partitioning(
    "contig", dg.StaticPartitionsDefinition([contig.name for contig in _CATALOG.contigs.linear])
)
BY_CORPUS_SOURCE = Partitioning("corpus_source", dg.StaticPartitionsDefinition(list(_CATALOG.corpus.sources)))
BY_RELEASE = Partitioning("clinvar_release", clinvar_release_partitions)
#: As ``BY_RELEASE``; made only of releases that the catalogue packages, unless a person asks.
BY_PACKAGED_RELEASE = Partitioning("clinvar_release", clinvar_release_partitions)


def on_same_key(asset: Keyed) -> dg.AssetDep:
    """Depend on the partition of ``asset`` that has the same key."""
    return _on(asset, dg.IdentityPartitionMapping())


def on_every_partition(asset: Keyed) -> dg.AssetDep:
    """Depend on all partitions of ``asset``, or on an unpartitioned one."""
    return _on(asset, dg.AllPartitionMapping())


def on_circular_contigs(asset: Keyed) -> dg.AssetDep:
    """Depend on the partitions of ``asset`` that are circular contigs."""
    circular = [contig.name for contig in _CATALOG.contigs if contig.circular]
    return _on(asset, dg.SpecificPartitionsPartitionMapping(circular))


def _on(asset: Keyed, mapping: dg.PartitionMapping) -> dg.AssetDep:
    return dg.AssetDep(asset.key.split("/"), partition_mapping=mapping)


def release_freshness(catalog: Catalog) -> dg.FreshnessPolicy:
    """Return the policy of what every new ClinVar release renews, by the catalogue's days.

    Dagster holds it against the latest materialisation of any partition, which is the question: is the newest one old?
    """
    days = catalog.clinvar.freshness
    return dg.FreshnessPolicy.time_window(
        warn_window=timedelta(days=days.warn_days), fail_window=timedelta(days=days.fail_days)
    )


RELEASE_FRESHNESS = release_freshness(_CATALOG)
