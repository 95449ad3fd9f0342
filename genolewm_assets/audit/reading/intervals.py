"""Held-out intervals: merged, and whether a place on the reference meets one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.audit.reading.contig_names import canonical_name
from genolewm_assets.audit.reading.package_files import PackageFiles, rows_of
from genolewm_assets.errors import CorruptResourceError

Integers: TypeAlias = npt.NDArray[np.int64]

#: Ending of the column, int64, that has the lengths of a column of texts where the texts themselves are not read.
OF_LENGTH = "_bp"


class Span(NamedTuple):
    """Bases ``[start, end)`` of a contig, 0-based."""

    contig: str
    start: int
    end: int


class HeldSpans:
    """Held-out bases, of all holdouts together; spans may be given in any order and overlap."""

    def __init__(self, spans: Iterable[Span]) -> None:
        merged: dict[str, list[list[int]]] = {}
        for contig, start, end in sorted(spans):
            ours = merged.setdefault(contig, [])
            if ours and start <= ours[-1][1]:
                ours[-1][1] = max(ours[-1][1], end)
            else:
                ours.append([start, end])
        self._spans = {contig: np.array(ours, dtype=np.int64) for contig, ours in merged.items()}
        #: Held-out bases before each span.
        self._before = {c: np.concatenate([[0], np.cumsum(each[:, 1] - each[:, 0])]) for c, each in self._spans.items()}

    @classmethod
    def of_package(cls, files: PackageFiles) -> HeldSpans:
        """Read the intervals that a package is audited against."""
        return cls(chain.from_iterable(spans_by_role(files).values()))

    def __iter__(self) -> Iterator[Span]:
        for contig, spans in self._spans.items():
            yield from (Span(contig, start, end) for start, end in spans.tolist())

    @property
    def contigs(self) -> list[str]:
        """Contigs with a held-out base."""
        return list(self._spans)

    def added(self, before: HeldSpans, around_bp: int) -> Iterator[Span]:
        """Yield the bases that were not held out before, each stretch with as many of its span on either side."""
        for contig, start, end in self:
            others = before._spans.get(contig, np.empty((0, 2), np.int64))
            # From the last one that begins before the span on; one without bases ends the last stretch.
            first, last = np.searchsorted(others[:, 1], start, "right"), np.searchsorted(others[:, 0], end)
            at = start
            for held_from, held_to in [*others[first:last].tolist(), [end, end]]:
                if at < held_from:
                    yield Span(contig, max(start, at - around_bp), min(end, held_from + around_bp))
                at = max(at, held_to)

    def shared_bp(self, contigs: pa.Array, starts: Integers, ends: Integers) -> Integers:
        """Return how many held-out bases each place ``[start, end)``, 0-based, has: int64, shape (n,)."""
        shared = np.zeros(len(starts), dtype=np.int64)
        for contig, rows in rows_by_contig(contigs):
            if contig in self._spans:
                most = self._held_before(contig, ends[rows]) - self._held_before(contig, starts[rows])
                shared[rows] = np.maximum(0, most)
        return shared

    def _held_before(self, contig: str, at: Integers) -> Integers:
        """Return how many held-out bases of a contig are before each base."""
        spans, before = self._spans[contig], self._before[contig]
        last = np.searchsorted(spans[:, 0], at, side="right") - 1
        within = np.minimum(at, spans[last, 1]) - spans[last, 0]
        held: Integers = np.where(last < 0, 0, before[last] + within)
        return held


def spans_by_role(files: PackageFiles) -> dict[tuple[str, str], list[Span]]:
    """Read the intervals that a package is audited against, by holdout and role."""
    spans = defaultdict[tuple[str, str], list[Span]](list)
    for row in rows_of(files.holdout("intervals", ("holdout", "role", "contig", "start", "end"))):
        span = Span(canonical_name(row["contig"]), row["start"], row["end"])
        if span.end < span.start:
            raise CorruptResourceError(
                "holdouts/intervals.parquet",
                "has an interval that ends before it starts",
                expected="start <= end, 0-based half-open",
                got=f"{span.contig}:{span.start}-{span.end}",
                remedy="Correct the holdouts",
            )
        spans[row["holdout"], row["role"]].append(span)
    return spans


def rows_by_contig(contigs: pa.Array) -> Iterator[tuple[str, Integers]]:
    """Yield each contig of a column of names with the rows that have it; a null is of none."""
    coded = contigs.dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy()
    for code, contig in enumerate(coded.dictionary.to_pylist()):
        yield contig, np.flatnonzero(codes == code)


def emitted_spans(windows: pa.RecordBatch) -> tuple[Integers, Integers]:
    """Return start and end of what placed windows can show a trainer: the window, and the flank that deletions draw in.

    Both int64, shape (n,); what a window without a start has means nothing.
    """
    start, end = stated_spans(windows)
    reach, strand = _lengths(windows, "right_flank"), windows["strand"]
    # Where the strand is not known, the flank may lie on either side.
    return start - np.where(are_equal(strand, "+"), 0, reach), end + np.where(are_equal(strand, "-"), 0, reach)


def left_flank_spans(windows: pa.RecordBatch) -> tuple[Integers, Integers]:
    """Return the place of the left flanks of placed windows, which trainers see with another ``length_policy`` only."""
    start, end = stated_spans(windows)
    reach, is_reverse = _lengths(windows, "left_flank"), are_equal(windows["strand"], "-")
    return np.where(is_reverse, end, start - reach), np.where(is_reverse, end + reach, start)


def stated_spans(windows: pa.RecordBatch) -> tuple[Integers, Integers]:
    """Return start and end of windows as stated; without an end, that of as many bases as the window has."""
    start, end = windows["start"].fill_null(0).to_numpy(), windows["end"]
    if not end.null_count:
        return start, end.to_numpy()
    return start, pc.coalesce(end, pa.array(start + _lengths(windows, "sequence"))).to_numpy()


def _lengths(windows: pa.RecordBatch, name: str) -> Integers:
    """Return the length of a text of each window, which may be given by itself."""
    if (given := f"{name}{OF_LENGTH}") in windows.schema.names:
        stated: Integers = windows[given].to_numpy()
        return stated
    lengths: Integers = pc.utf8_length(windows[name]).to_numpy().astype(np.int64)
    return lengths


def are_equal(texts: pa.Array, value: str) -> npt.NDArray[np.bool_]:
    """Tell which texts are equal to one; a null is not."""
    equal: npt.NDArray[np.bool_] = pc.equal(texts, value).fill_null(False).to_numpy(zero_copy_only=False)
    return equal
