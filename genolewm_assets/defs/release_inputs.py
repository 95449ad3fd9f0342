"""Everything that holdouts and packages of one ClinVar release are made from, opened and verified together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from genolewm_assets.defs.workspace import Workspace
from genolewm_assets.lewm.holdout_corpus import CORPUS_COLUMNS
from genolewm_assets.lewm.holdout_policy import HoldoutPolicy
from genolewm_assets.store import Published


@dataclass(frozen=True, slots=True)
class ReleaseInputs:
    """Published inputs by contig or corpus source.

    Attributes
    ----------
    earlier
        Shard of the release that the temporal holdout compares with; None where the catalogue names no predecessor.
    """

    genome: Published
    windows: Mapping[str, Published]
    gnomad: Mapping[str, Published]
    corpus: Mapping[str, Published]
    clinvar: Published
    earlier: Published | None

    @classmethod
    def open(cls, workspace: Workspace, release: str) -> ReleaseInputs:
        """Open all of them; raises as :meth:`Workspace.open_input` for the first that is refused."""
        linear = [contig.name for contig in workspace.contigs.linear]
        predecessor = workspace.catalog.clinvar.predecessors.get(release)
        return cls(
            genome=workspace.open_input("reference/genome"),
            windows={name: workspace.open_input("windows/index", name) for name in linear},
            gnomad={name: workspace.open_input("gnomad/shard", name) for name in linear},
            corpus={name: workspace.open_input("corpus/windows", name) for name in workspace.catalog.corpus.sources},
            clinvar=workspace.open_input("clinvar/shard", release),
            earlier=workspace.open_input("clinvar/shard", predecessor) if predecessor else None,
        )

    @property
    def published(self) -> tuple[Published, ...]:
        """All of them, in one order."""
        earlier = () if self.earlier is None else (self.earlier,)
        groups = (self.windows, self.gnomad, self.corpus)
        return (self.genome, *(each for group in groups for each in group.values()), self.clinvar, *earlier)

    def window_tables(self) -> dict[str, pa.Table]:
        """Read the window indexes by contig."""
        return {name: pq.read_table(each.file("windows.parquet")) for name, each in self.windows.items()}

    def gnomad_tables(self) -> dict[str, pa.Table]:
        """Read the gnomAD shards by contig."""
        return {name: pq.read_table(each.file("variants.parquet")) for name, each in self.gnomad.items()}

    def clinvar_tables(self) -> dict[str, pa.Table]:
        """Read the release's alleles by linear contig."""
        return _by_contig(self.clinvar, self.windows)

    def earlier_tables(self) -> dict[str, pa.Table] | None:
        """Read the earlier release's alleles by linear contig."""
        return None if self.earlier is None else _by_contig(self.earlier, self.windows)

    def corpus_datasets(self) -> dict[str, ds.Dataset]:
        """Open the corpus windows by source, without reading their sequences."""
        return {name: ds.dataset(each.file("windows.parquet")) for name, each in self.corpus.items()}

    def corpus_placements(self) -> Iterator[pa.Table]:
        """Read where the corpus windows stand, a little at a time, without their sequences."""
        for dataset in self.corpus_datasets().values():
            for batch in dataset.to_batches(columns=list(CORPUS_COLUMNS)):
                yield pa.table(batch)


def holdout_policy(workspace: Workspace, release: str) -> HoldoutPolicy:
    """Return the catalogue's policy for a release."""
    predecessor = workspace.catalog.clinvar.predecessors.get(release)
    temporal = (predecessor, release) if predecessor else None
    return HoldoutPolicy(**workspace.catalog.holdouts.model_dump(), temporal=temporal).canonical(workspace.contigs)


def _by_contig(shard: Published, contigs: Mapping[str, Published]) -> dict[str, pa.Table]:
    return {name: pq.read_table(shard.file(f"{name}.parquet")) for name in contigs}
