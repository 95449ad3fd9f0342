"""Inputs of the holdouts and the package of one ClinVar release, opened and verified together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from genolewm_assets.defs.assets.clinvar import clinvar_shard
from genolewm_assets.defs.assets.corpus import corpus_windows
from genolewm_assets.defs.assets.gnomad import gnomad_shard
from genolewm_assets.defs.assets.reference import reference_genome
from genolewm_assets.defs.assets.windows import windows_index
from genolewm_assets.defs.runtime import GatedAsset, Workspace, on_every_partition, on_same_key
from genolewm_assets.errors import MissingResourceError, ResourceError
from genolewm_assets.holdouts import CORPUS_COLUMNS, SEQUENCE_COLUMNS, HoldoutPolicy, TemporalChoice
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.artefacts import Published
from genolewm_assets.store.files import normal_json
from genolewm_assets.store.tables import read_batches, read_table
from genolewm_assets.windows.bases import BASES_NAME, map_bases
from genolewm_assets.windows.reference import FACTS

#: Dependencies on the assets that :meth:`ReleaseInputs.open` opens. The shard of T0 is an input too, which the manifest
#: names: an upstream asset takes one partition mapping, and a mapping to every release would build every package again
#: when any release arrives (decision 56).
RELEASE_DEPS = (
    on_every_partition(reference_genome),
    on_every_partition(gnomad_shard),
    on_same_key(clinvar_shard),
    on_every_partition(windows_index),
    on_every_partition(corpus_windows),
)


class TablesOnDemand(Mapping[str, pa.Table]):
    """Some columns of Parquet files by name; a table is read whenever it is asked for, and not kept."""

    def __init__(self, files: Mapping[str, Path], columns: Sequence[str]) -> None:
        self._files, self._columns = dict(files), list(columns)

    def __getitem__(self, name: str) -> pa.Table:
        return read_table(self._files[name], columns=self._columns)

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


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
        ``corpus/windows`` by piece.
    clinvar
        ``clinvar/shard`` of the release.
    temporal
        T0 of the release, or None, and why.
    earlier
        ``clinvar/shard`` of T0; None without a temporal holdout.
    """

    genome: Published
    windows: Mapping[str, Published]
    gnomad: Mapping[str, Published]
    corpus: Mapping[str, Published]
    clinvar: Published
    temporal: TemporalChoice
    earlier: Published | None

    @classmethod
    def open(cls, workspace: Workspace, release: str, *, progress: Progress = NO_PROGRESS) -> ReleaseInputs:
        """Open and verify all inputs; raises the error of :meth:`GatedAsset.open` for the first that is refused."""

        def open_each(asset: GatedAsset, partitions: Iterable[str]) -> dict[str, Published]:
            return {name: asset.open(workspace, name, progress=progress) for name in partitions}

        linear = [contig.name for contig in workspace.contigs.linear]
        pieces = workspace.divided_pieces()
        temporal = workspace.temporal(release)
        clinvar = clinvar_shard.open(workspace, release, progress=progress)
        return cls(
            genome=reference_genome.open(workspace, progress=progress),
            windows=open_each(windows_index, linear),
            gnomad=open_each(gnomad_shard, linear),
            corpus=open_each(corpus_windows, pieces),
            clinvar=clinvar,
            temporal=temporal,
            earlier=_open_earlier(workspace, clinvar, temporal, progress),
        )

    @property
    def published(self) -> tuple[Published, ...]:
        """All inputs, in a fixed order."""
        earlier = () if self.earlier is None else (self.earlier,)
        groups = (self.windows, self.gnomad, self.corpus)
        return (self.genome, *(each for group in groups for each in group.values()), self.clinvar, *earlier)

    def window_tables(self) -> dict[str, pa.Table]:
        """Read the window indexes by contig, without the bases."""
        columns = list(FACTS)
        return {name: read_table(each.file("windows.parquet"), columns=columns) for name, each in self.windows.items()}

    def gnomad_on_demand(self, columns: Sequence[str]) -> TablesOnDemand:
        """Return some columns of the gnomAD shards by contig."""
        return TablesOnDemand({name: each.file("variants.parquet") for name, each in self.gnomad.items()}, columns)

    def clinvar_on_demand(self, columns: Sequence[str]) -> TablesOnDemand:
        """Return some columns of the alleles of the release by linear contig."""
        return clinvar_by_contig(self.clinvar, self.windows, columns)

    def earlier_on_demand(self, columns: Sequence[str]) -> TablesOnDemand | None:
        """Return some columns of the alleles of T0 by linear contig; None without a temporal holdout."""
        if self.earlier is None:
            return None
        return clinvar_by_contig(self.earlier, self.windows, columns)

    def packed_bases(self, name: str) -> NDArray[np.uint8]:
        """Map the bases of all windows of a contig or piece, four a byte."""
        return map_bases({**self.windows, **self.corpus}[name].file(BASES_NAME))

    def corpus_files(self) -> dict[str, Path]:
        """Return the Parquet file of the corpus windows by piece."""
        return {name: each.file("windows.parquet") for name, each in self.corpus.items()}

    def corpus_placements(self) -> Iterator[pa.Table]:
        """Yield the placements of the corpus windows batch by batch, without their sequences."""
        for path in self.corpus_files().values():
            for batch in read_batches(path, 65_536, CORPUS_COLUMNS):
                yield pa.table(batch)

    def corpus_pieces(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield the corpus windows of each piece, with the columns of which the search for held-out sequence begins."""
        for name, path in self.corpus_files().items():
            yield name, read_table(path, columns=list(SEQUENCE_COLUMNS))


def holdout_policy(workspace: Workspace, inputs: ReleaseInputs) -> HoldoutPolicy:
    """Return the catalogue's holdout policy, with T0 and T1 of the temporal holdout and the rule that chose T0."""
    chosen = inputs.temporal
    temporal = None if chosen.earlier is None else (chosen.earlier, str(inputs.clinvar.artefact.partition))
    policy = replace(workspace.catalog.holdouts.policy, temporal=temporal, temporal_rule=chosen.rule)
    return policy.canonical(workspace.contigs)


def check_held_out_under(holdouts: Published, policy: HoldoutPolicy) -> None:
    """Raise :class:`ResourceError` unless holdouts were built under ``policy``.

    A package of a changed policy with the old holdouts would train on data that it is evaluated on.
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


def _open_earlier(
    workspace: Workspace, later: Published, temporal: TemporalChoice, progress: Progress
) -> Published | None:
    """Open the shard of T0, which automation does not wait for, so that the error says what to build."""
    if temporal.earlier is None:
        return None
    where = f"temporal holdout of {later.artefact.partition}"
    try:
        earlier = clinvar_shard.open(workspace, temporal.earlier, progress=progress)
    except MissingResourceError as err:
        raise MissingResourceError(
            where,
            f"T0 is {temporal.earlier}, but its clinvar/shard is not published",
            remedy=f"Materialise clinvar/release and clinvar/shard for {temporal.earlier}, or name another T0 in "
            "holdouts.temporal",
        ) from err
    if _genome_of(earlier) != _genome_of(later):
        raise ResourceError(
            where,
            f"{earlier.artefact} and {later.artefact} were built from different genomes",
            expected=f"reference/genome {_genome_of(later)}",
            got=_genome_of(earlier),
            remedy="Rebuild the older of the two shards",
        )
    return earlier


def _genome_of(shard: Published) -> str:
    """Return the SHA-256 of the manifest of the genome that a shard was normalised against."""
    return next(ref.manifest_sha256 for ref in shard.manifest.inputs if ref.asset == reference_genome.key)


def clinvar_by_contig(shard: Published, contigs: Iterable[str], columns: Sequence[str]) -> TablesOnDemand:
    """Return some columns of the alleles of a ``clinvar/shard`` by contig."""
    return TablesOnDemand({name: shard.file(f"{name}.parquet") for name in contigs}, columns)
