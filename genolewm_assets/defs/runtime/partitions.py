"""Partitions of the assets, and partition mappings of their dependencies.

Contigs and corpus sources are read from the catalogue once, at import; releases, run folders and pieces of the corpus
are dynamic.
"""

from __future__ import annotations

from dataclasses import dataclass

import dagster as dg

from genolewm_assets.defs.display import Keyed
from genolewm_assets.defs.runtime.settings import configured_catalog, configured_encoder
from genolewm_assets.defs.runtime.workspace import replace_encoder
from genolewm_assets.sources.catalog import load_catalog

_CATALOG = replace_encoder(load_catalog(configured_catalog()), **configured_encoder())

#: Name of the partitions that are pieces of the corpus.
CORPUS_PIECES = "corpus_piece"

clinvar_release_partitions = dg.DynamicPartitionsDefinition(name="clinvar_release")
corpus_piece_partitions = dg.DynamicPartitionsDefinition(name=CORPUS_PIECES)
forensic_run_partitions = dg.DynamicPartitionsDefinition(name="forensic_run")


@dataclass(frozen=True, slots=True, eq=False)
class Partitioning:
    """Partitioning of an asset.

    Attributes
    ----------
    by
        Value of the tag ``genolewm/partitioned_by``, which selects assets that can be materialised together in the UI.
    definition
        Dagster's partitions; None for an asset without partitions.
    """

    by: str
    definition: dg.PartitionsDefinition | None = None

    def keys(self, instance: dg.DagsterInstance | None) -> list[str | None]:
        """Return the registered partition keys, dynamic ones from ``instance``; ``[None]`` without partitions."""
        if self.definition is None:
            return [None]
        return list(self.definition.get_partition_keys(dynamic_partitions_store=instance))


NOT_PARTITIONED = Partitioning("nothing")
BY_CONTIG = Partitioning("contig", dg.StaticPartitionsDefinition(list(_CATALOG.contigs.names)))
BY_LINEAR_CONTIG = Partitioning(
    "contig", dg.StaticPartitionsDefinition([contig.name for contig in _CATALOG.contigs.linear])
)
BY_CORPUS_SOURCE = Partitioning("corpus_source", dg.StaticPartitionsDefinition(list(_CATALOG.corpus.sources)))
BY_CORPUS_PIECE = Partitioning("corpus_piece", corpus_piece_partitions)
BY_RELEASE = Partitioning("clinvar_release", clinvar_release_partitions)
#: Same partitions as ``BY_RELEASE``, for assets that automation builds only for releases that the catalogue packages.
BY_PACKAGED_RELEASE = Partitioning("clinvar_release", clinvar_release_partitions)
#: That of an asset that is turned off: not one. Every button that builds all assets would build an asset without
#: partitions of its own.
NO_PARTITION = Partitioning("no_partition", dg.StaticPartitionsDefinition([]))

#: Those of what states are computed of; none where the encoder is off.
BY_ENCODED_CONTIG, BY_ENCODED_PIECE = (
    each if _CATALOG.encoder else NO_PARTITION for each in (BY_LINEAR_CONTIG, BY_CORPUS_PIECE)
)
#: Those of the packages whose epochs are frozen: of all or, where the catalogue asks for no epoch, none.
BY_FROZEN_RELEASE = BY_PACKAGED_RELEASE if _CATALOG.encoder and _CATALOG.packages.frozen_epochs else NO_PARTITION
#: Those of the packages that are evaluated, in the same way.
BY_EVALUATED_RELEASE = BY_PACKAGED_RELEASE if _CATALOG.encoder and _CATALOG.packages.evaluation else NO_PARTITION

BY_RUN_FOLDER = Partitioning("forensic_run", forensic_run_partitions)


def on_same_key(asset: Keyed) -> dg.AssetDep:
    """Return a dependency on the partition of ``asset`` that has the same key."""
    return _on(asset, dg.IdentityPartitionMapping())


def on_every_partition(asset: Keyed) -> dg.AssetDep:
    """Return a dependency on all partitions of ``asset``, or on an asset without partitions."""
    return _on(asset, dg.AllPartitionMapping())


def on_key_of(partitions: Partitioning, asset: Keyed) -> dg.AssetDep:
    """Return a dependency of an asset with these partitions on the same key; with ``NO_PARTITION``, on all."""
    return on_every_partition(asset) if partitions is NO_PARTITION else on_same_key(asset)


def on_circular_contigs(asset: Keyed) -> dg.AssetDep:
    """Return a dependency on the partitions of ``asset`` that are circular contigs."""
    circular = [contig.name for contig in _CATALOG.contigs if contig.circular]
    return _on(asset, dg.SpecificPartitionsPartitionMapping(circular))


def _on(asset: Keyed, mapping: dg.PartitionMapping) -> dg.AssetDep:
    return dg.AssetDep(asset.key.split("/"), partition_mapping=mapping)
