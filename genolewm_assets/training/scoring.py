"""Show every bench allele once, in its most central window. Not here: which alleles those are (``package_build``)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from genolewm_assets.edits import AlleleIndex, Classification, EditSource, PackedWindows, Redraw, SamplingRules
from genolewm_assets.errors import ConfigurationError, CorruptResourceError
from genolewm_assets.genome import DECIDED, Split
from genolewm_assets.memory_mapped import MappedWindows
from genolewm_assets.packages import REFERENCE_ORIGIN, SCORED, Package, most_central_windows
from genolewm_assets.training.opening import SplitSources
from genolewm_assets.training.sampler import BatchSampler, EditBatch, WindowArrays
from genolewm_assets.training.stream import Drawn, TupleStream, Visits
from genolewm_assets.variants import ALLELE_KEY, Int64s, allele_spans

#: Columns of ``PACKAGE_VARIANTS`` that a bench has.
_ALLELES = ["holdout", *ALLELE_KEY, "label", "stars", "clinvar_id", "gene_ids", "scoring"]
#: Alleles that are made at a time to see which can be shown.
_AT_ONCE = 256


class Bench:
    """The bench alleles (``PACKAGE_VARIANTS``) that windows show, in the order of an epoch: by window, by position.

    ``held_out``: alleles that are never shown.
    """

    def __init__(
        self, alleles: pa.Table, windows: MappedWindows, held_out: AlleleIndex, rules: SamplingRules | None = None
    ) -> None:
        self.alleles = AlleleIndex.of(alleles)
        self._sampler = BatchSampler({EditSource.CLINVAR: self.alleles}, held_out, rules)
        self._window_rows = _place(alleles.sort_by([(name, "ascending") for name in ALLELE_KEY]), windows)
        #: Rows of ``alleles`` in the order of an epoch: int64, shape (n_alleles,).
        self.order = np.argsort(self._window_rows, kind="stable")

    @classmethod
    def read(cls, package: Package, split: Split, holdout: str, sources: SplitSources, rules: SamplingRules) -> Bench:
        """Read the bench of a holdout and split; an empty one is a ConfigurationError."""
        ours = (pc.field("holdout") == holdout) & (pc.field("scoring") == SCORED)
        alleles = package.variants(split, _ALLELES, where=ours)
        if not alleles.num_rows:
            raise ConfigurationError(
                f"{package.directory.name}: {split} alleles of holdout {holdout!r}",
                "the bench is empty",
                expected="ClinVar alleles labelled P, LP, B or LB with enough review stars",
                remedy="Use coverage='windows', or another holdout",
            )
        return cls(alleles, sources.windows, sources.held_out, rules)

    @classmethod
    def of_training(cls, package: Package, windows: MappedWindows, most: int) -> Bench:
        """Read the P, LP, B and LB alleles of training that its reference windows show, or ``most`` spread evenly.

        Held-out alleles are not looked up: one that leaked into the table is shown as the others are.
        """
        decided = pc.is_in(pc.field("label"), pa.array(DECIDED))
        table = package.variants(Split.TRAIN, _ALLELES, where=decided)
        table = table.sort_by([(name, "ascending") for name in ALLELE_KEY])
        table = table.take(np.unique(np.linspace(0, max(0, table.num_rows - 1), min(most, table.num_rows), dtype=int)))
        table = table.filter(pa.array(_find(table, windows) >= 0))
        nothing = AlleleIndex.of(table.slice(0, 0))
        bench = cls(table, windows, nothing)
        parts = [bench.order[at : at + _AT_ONCE] for at in range(0, len(bench.order), _AT_ONCE)]
        shown = [part[bench.show(windows, part).refused < 0] for part in parts]
        return cls(table.take(np.sort(np.concatenate([np.empty(0, np.int64), *shown]))), windows, nothing)

    def show(self, windows: MappedWindows, alleles: Int64s) -> Shown:
        """Make alleles the edits of their windows: rows of ``alleles``, int64, shape (n,), in the order of an epoch."""
        rows = self._window_rows[alleles]
        begins = np.flatnonzero(np.diff(rows, prepend=-1))
        packed = windows.packed(rows[begins])
        edits, refused = self._sampler.show(WindowArrays.unpack(packed), np.append(begins, len(rows)), alleles)
        return Shown(rows[begins], packed, edits, refused)


class Shown(NamedTuple):
    """Rows of windows, the windows, their tuples, and why alleles are refused, see ``BatchSampler.show``."""

    rows: Int64s
    windows: PackedWindows
    edits: EditBatch
    refused: NDArray[np.int8]


def _place(alleles: pa.Table, windows: MappedWindows) -> Int64s:
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


def _find(alleles: pa.Table, windows: MappedWindows) -> Int64s:
    """Return the row of the reference window that shows each allele best, -1 if none has it: int64, (n_alleles,)."""
    placed, (first, end) = np.full(alleles.num_rows, -1, dtype=np.int64), allele_spans(alleles)
    names, origin = windows.origin_codes()
    for contig, starts, ends, rows in windows.spans(0, 0):
        ours = pc.indices_nonzero(pc.equal(alleles["chrom"], contig)).to_numpy().astype(np.int64)
        is_reference = (np.array(names) == REFERENCE_ORIGIN)[origin[rows]]
        found = most_central_windows(starts[is_reference], ends[is_reference], first[ours], end[ours])
        placed[ours] = np.append(rows[is_reference], -1)[found]
    return placed


class ScoringStream(TupleStream[Bench]):
    """Makes batches of bench alleles, by rules without left context; a row of a visit is a place in ``Bench.order``."""

    def __len__(self) -> int:
        """Return the number of rows that an epoch visits: bench alleles."""
        return len(self._source.order)

    def _draw(self, visits: Visits, epoch: int) -> Drawn:  # noqa: ARG002 - all epochs are equal
        """Raise CorruptResourceError if a window cannot show an allele that the package states as scored."""
        bench, alleles = self._source, self._source.order[visits.rows]
        shown = bench.show(self.windows, alleles)
        if (shown.refused >= 0).any():
            at = int(np.argmax(shown.refused >= 0))
            row = int(alleles[at])
            contig = next(name for name, (first, end) in bench.alleles.contigs.items() if first <= row < end)
            raise CorruptResourceError(
                f"bench allele {contig}:{bench.alleles.allele(row)}",
                "is stated as scored, but its window does not show it",
                expected="an edit",
                got=str(list(Redraw)[shown.refused[at]]),
                remedy="Rebuild the package",
            )
        facts = bench.alleles.classification
        stated = Classification.unknown(len(alleles)) if facts is None else facts.take(shown.edits.allele_row)
        return Drawn(len(visits.rows), shown.rows, shown.windows, shown.edits, stated)
