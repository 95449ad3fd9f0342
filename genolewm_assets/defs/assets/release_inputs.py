"""Inputs of the holdouts and the package of one ClinVar release, opened and verified together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from genolewm_assets.defs.assets.clinvar import clinvar_shard
from genolewm_assets.defs.assets.clinvar_changes import clinvar_changes
from genolewm_assets.defs.assets.corpus import corpus_windows
from genolewm_assets.defs.assets.gnomad import gnomad_shard
from genolewm_assets.defs.assets.reference import reference_genome
from genolewm_assets.defs.assets.windows import windows_index
from genolewm_assets.defs.runtime import GatedAsset, Workspace, on_every_partition, on_same_key
from genolewm_assets.errors import ResourceError
from genolewm_assets.lewm.holdouts import CORPUS_COLUMNS, HoldoutPolicy
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.artefacts import Published
from genolewm_assets.store.files import normal_json

#: Dependencies on the assets that :meth:`ReleaseInputs.open` opens.
RELEASE_DEPS = (
    on_every_partition(reference_genome),
    on_every_partition(gnomad_shard),
    on_same_key(clinvar_shard),
    on_same_key(clinvar_changes),
    on_every_partition(windows_index),
    on_every_partition(corpus_windows),
)


@dataclass(frozen=True, slots=True)
class ReleaseInputs:
    """Published inputs of one release.

    Attributes
    ----------
    genome
        ``reference/genome``.
    windows, gnomad
        ``windows/index`` and ``gnomad/shard`` by linear contig.
    corpus
        ``corpus/windows`` by corpus source.
    clinvar
        ``clinvar/shard`` of the release.
    changes
        ``clinvar/changes`` of the release; its recipe names the predecessor.
    earlier
        ``clinvar/shard`` of the predecessor, which the temporal holdout compares with; None without a predecessor.
    """

    genome: Published
    windows: Mapping[str, Published]
    gnomad: Mapping[str, Published]
    corpus: Mapping[str, Published]
    clinvar: Published
    changes: Published
    earlier: Published | None

    @classmethod
    def open(cls, workspace: Workspace, release: str, *, progress: Progress = NO_PROGRESS) -> ReleaseInputs:
        """Open and verify all inputs; raises the error of :meth:`GatedAsset.open` for the first that is refused."""

        def open_each(asset: GatedAsset, partitions: Iterable[str]) -> dict[str, Published]:
            return {name: asset.open(workspace, name, progress=progress) for name in partitions}

        linear = [contig.name for contig in workspace.contigs.linear]
        changes = clinvar_changes.open(workspace, release, progress=progress)
        predecessor = changes.manifest.recipe["predecessor"]
        return cls(
            genome=reference_genome.open(workspace, progress=progress),
            windows=open_each(windows_index, linear),
            gnomad=open_each(gnomad_shard, linear),
            corpus=open_each(corpus_windows, workspace.catalog.corpus.sources),
            clinvar=clinvar_shard.open(workspace, release, progress=progress),
            changes=changes,
            earlier=None if predecessor is None else clinvar_shard.open(workspace, str(predecessor), progress=progress),
        )

    @property
    def published(self) -> tuple[Published, ...]:
        """All inputs, in a fixed order."""
        earlier = () if self.earlier is None else (self.earlier,)
        groups = (self.windows, self.gnomad, self.corpus)
        return (
            self.genome,
            *(each for group in groups for each in group.values()),
            self.clinvar,
            self.changes,
            *earlier,
        )

    def window_tables(self) -> dict[str, pa.Table]:
        """Read the window indexes by contig."""
        return {name: pq.read_table(each.file("windows.parquet")) for name, each in self.windows.items()}

    def gnomad_tables(self) -> dict[str, pa.Table]:
        """Read the gnomAD shards by contig."""
        return {name: pq.read_table(each.file("variants.parquet")) for name, each in self.gnomad.items()}

    def clinvar_tables(self) -> dict[str, pa.Table]:
        """Read the alleles of the release by linear contig."""
        return _by_contig(self.clinvar, self.windows)

    def earlier_tables(self) -> dict[str, pa.Table] | None:
        """Read the alleles of the predecessor by linear contig; None without a predecessor."""
        return None if self.earlier is None else _by_contig(self.earlier, self.windows)

    def corpus_datasets(self) -> dict[str, ds.Dataset]:
        """Open the corpus windows by source, without reading their sequences."""
        return {name: ds.dataset(each.file("windows.parquet")) for name, each in self.corpus.items()}

    def corpus_placements(self) -> Iterator[pa.Table]:
        """Yield the placements of the corpus windows batch by batch, without their sequences."""
        for dataset in self.corpus_datasets().values():
            for batch in dataset.to_batches(columns=list(CORPUS_COLUMNS)):
                yield pa.table(batch)


def holdout_policy(workspace: Workspace, inputs: ReleaseInputs) -> HoldoutPolicy:
    """Return the catalogue's holdout policy, with the temporal holdout between the predecessor and the release."""
    earlier, later = inputs.earlier, str(inputs.clinvar.artefact.partition)
    temporal = None if earlier is None else (str(earlier.artefact.partition), later)
    return replace(workspace.catalog.holdouts.policy, temporal=temporal).canonical(workspace.contigs)


def check_held_out_under(holdouts: Published, policy: HoldoutPolicy) -> None:
    """Raise :class:`ResourceError` unless holdouts were built under ``policy``.

    A new predecessor or an edited catalogue affects the holdouts only after a rebuild. A package of the new policy with
    the old holdouts would train on data that it is evaluated on.
    """
    wanted, found = normal_json(policy.as_recipe(), "policy"), holdouts.manifest.recipe["policy"]
    if found == wanted:
        return
    stated = found if isinstance(found, Mapping) else {}
    differing = sorted(name for name in wanted.keys() | stated.keys() if wanted.get(name) != stated.get(name))
    raise ResourceError(
        str(holdouts.artefact),
        "was built under another policy",
        expected=", ".join(f"{name}={wanted.get(name)!r}" for name in differing),
        got=", ".join(f"{name}={stated.get(name)!r}" for name in differing),
        remedy=f"Rebuild {holdouts.artefact}",
    )


def _by_contig(shard: Published, contigs: Mapping[str, Published]) -> dict[str, pa.Table]:
    return {name: pq.read_table(shard.file(f"{name}.parquet")) for name in contigs}
