"""Show every bench allele once, in its most central window. Not here: which alleles those are (``package_build``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.edits import AlleleIndex, AlleleMaker, Classification, Haplotype, WindowRecord
from genolewm_assets.errors import ConfigurationError, CorruptResourceError
from genolewm_assets.genome import DECIDED, Split
from genolewm_assets.memory_mapped import MappedWindows
from genolewm_assets.packages import REFERENCE_ORIGIN, SCORED, Package, most_central_windows
from genolewm_assets.training.haplotype_edits import edits_of
from genolewm_assets.training.stream import Drawn, TupleStream, Visits
from genolewm_assets.variants import ALLELE_KEY, Int64s, allele_spans

#: Columns of ``PACKAGE_VARIANTS`` that a bench has.
_ALLELES = ["holdout", *ALLELE_KEY, "label", "stars", "clinvar_id", "gene_ids", "scoring"]


class Bench:
    """The bench alleles (``PACKAGE_VARIANTS``) that windows show, in the order of an epoch: by window, by position."""

    def __init__(self, alleles: pa.Table, windows: pa.Table, maker: AlleleMaker) -> None:
        self.alleles, self.maker = AlleleIndex.of(alleles), maker
        self.window_rows = _place(alleles.sort_by([(name, "ascending") for name in ALLELE_KEY]), windows)
        #: Rows of ``alleles`` in the order of an epoch: int64, shape (n_alleles,).
        self.order = np.argsort(self.window_rows, kind="stable")

    @classmethod
    def read(cls, package: Package, split: Split, holdout: str, maker: AlleleMaker) -> Bench:
        """Read the bench of a holdout and split; an empty one is a ConfigurationError."""
        variants = package.variants(split, _ALLELES)
        ours = pc.and_(pc.equal(variants["holdout"], holdout), pc.equal(variants["scoring"], SCORED))
        alleles = variants.filter(pc.fill_null(ours, False))
        if not alleles.num_rows:
            raise ConfigurationError(
                f"{package.directory.name}: {split} alleles of holdout {holdout!r}",
                "the bench is empty",
                expected="ClinVar alleles labelled P, LP, B or LB with enough review stars",
                remedy="Use coverage='windows', or another holdout",
            )
        windows = package.windows(split, ["holdout", "contig", "start", "end"])
        return cls(alleles, windows.filter(pc.equal(windows["holdout"], holdout)), maker)

    @classmethod
    def of_training(cls, package: Package, windows: MappedWindows, most: int) -> Bench:
        """Read the P, LP, B and LB alleles of training that its reference windows show, or ``most`` spread evenly.

        Held-out alleles are not looked up: one that leaked into the table is shown as the others are.
        """
        decided = pc.is_in(pc.field("label"), pa.array(DECIDED))
        table = package.variants(Split.TRAIN, _ALLELES, where=decided)
        table = table.sort_by([(name, "ascending") for name in ALLELE_KEY])
        table = table.take(np.unique(np.linspace(0, max(0, table.num_rows - 1), min(most, table.num_rows), dtype=int)))
        rows = package.windows(Split.TRAIN, ["origin", "contig", "start", "end"])
        placed = pc.if_else(pc.equal(rows["origin"], REFERENCE_ORIGIN), rows["contig"], pa.scalar(None, pa.string()))
        rows = rows.set_column(1, "contig", placed)
        maker = AlleleMaker(AlleleIndex.of(table.slice(0, 0)))
        found, facts = _find(table, rows), AlleleIndex.of(table)
        shown = [
            row >= 0 and isinstance(maker.make(windows.record(row), facts.allele(number)), Haplotype)
            for number, row in enumerate(found.tolist())
        ]
        return cls(table.filter(pa.array(shown, pa.bool_())), rows, maker)


def _place(alleles: pa.Table, windows: pa.Table) -> Int64s:
    """Return the row of the window that shows each allele: int64, shape (n_alleles,)."""
    placed = _find(alleles, windows)
    if (placed < 0).any():
        raise CorruptResourceError(
            "bench alleles",
            "some are stated as scored, but no window contains them",
            expected="a window for each",
            got=f"{int((placed < 0).sum())} without one",
            remedy="Rebuild the package",
        )
    return placed


def _find(alleles: pa.Table, windows: pa.Table) -> Int64s:
    """Return the row of the window that shows each allele best, -1 if none contains it: int64, shape (n_alleles,)."""
    placed = np.full(alleles.num_rows, -1, dtype=np.int64)
    contigs, chroms = windows["contig"].to_numpy(), alleles["chrom"].to_numpy()
    starts, ends = windows["start"].to_numpy(), windows["end"].to_numpy()
    spans = allele_spans(alleles)
    for contig in pc.unique(alleles["chrom"]).to_pylist():
        rows, ours = np.flatnonzero(contigs == contig), np.flatnonzero(chroms == contig)
        found = most_central_windows(starts[rows], ends[rows], *(bounds[ours] for bounds in spans))
        placed[ours] = np.where(found < 0, -1, rows[found]) if len(rows) else -1
    return placed


class ScoringStream(TupleStream[Bench]):
    """Makes batches of bench alleles, by rules without left context; a row of a visit is a place in ``Bench.order``."""

    def __len__(self) -> int:
        """Return the number of rows that an epoch visits: bench alleles."""
        return len(self._source.order)

    def _draw(self, visits: Visits, epoch: int) -> Drawn:  # noqa: ARG002 - all epochs are equal
        """Raise CorruptResourceError if a window cannot show an allele that the package states as scored."""
        filled: list[tuple[WindowRecord, Sequence[Haplotype], Mapping[str, int]]] = []
        rows: list[int] = []
        alleles = self._source.order[visits.rows].tolist()
        for row, group in groupby(alleles, key=self._source.window_rows.__getitem__):
            record = self.windows.record(int(row))
            rows.append(int(row))
            filled.append((record, [self._show(record, allele) for allele in group], {}))
        edits, facts = edits_of(filled, self.settings.pooling), self._source.alleles.classification
        stated = Classification.unknown(len(edits)) if facts is None else facts.take(edits.allele_row)
        numbers = np.array(rows, dtype=np.int64)
        return Drawn(len(visits.rows), numbers, self.windows.packed(numbers), edits, stated)

    def _show(self, record: WindowRecord, row: int) -> Haplotype:
        allele = self._source.alleles.allele(row)
        made = self._source.maker.make(record, allele, row)
        if isinstance(made, Haplotype):
            return made
        raise CorruptResourceError(
            f"bench allele {record.contig}:{allele}",
            "is stated as scored, but its window does not show it",
            expected="an edit",
            got=str(made),
            remedy="Rebuild the package",
        )
