"""Held-out intervals: merged, and whether a place on the reference meets one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.audit.reading.contig_names import canonical_name
from genolewm_assets.audit.reading.package_files import PackageFiles, rows_of
from genolewm_assets.errors import CorruptResourceError

Integers: TypeAlias = npt.NDArray[np.int64]


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
        rows = rows_of(files.holdout("intervals", ("contig", "start", "end")))
        return cls(_held_span(row) for row in rows)

    def __iter__(self) -> Iterator[Span]:
        for contig, spans in self._spans.items():
            yield from (Span(contig, start, end) for start, end in spans.tolist())

    @property
    def contigs(self) -> list[str]:
        """Contigs with a held-out base."""
        return list(self._spans)

    def shared_bp(self, contigs: pa.Array, starts: Integers, ends: Integers) -> Integers:
        """Return how many held-out bases each place ``[start, end)``, 0-based, has: int64, shape (n,)."""
        shared = np.zeros(len(starts), dtype=np.int64)
        coded = contigs.dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        for code, contig in enumerate(coded.dictionary.to_pylist()):
            if contig in self._spans:
                rows = np.flatnonzero(codes == code)
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


def _held_span(row: dict[str, Any]) -> Span:
    span = Span(canonical_name(row["contig"]), row["start"], row["end"])
    if span.end < span.start:
        raise CorruptResourceError(
            "holdouts/intervals.parquet",
            "has an interval that ends before it starts",
            expected="start <= end, 0-based half-open",
            got=f"{span.contig}:{span.start}-{span.end}",
            remedy="Correct the holdouts",
        )
    return span


def emitted_spans(windows: pa.RecordBatch) -> tuple[Integers, Integers]:
    """Return start and end of what placed windows can show a trainer: the window, and the flank that deletions draw in.

    Both int64, shape (n,); what a window without a start has means nothing.
    """
    start, end = _bounds(windows)
    reach, strand = _lengths(windows["right_flank"]), windows["strand"]
    # Where the strand is not known, the flank may lie on either side.
    return start - np.where(_equal(strand, "+"), 0, reach), end + np.where(_equal(strand, "-"), 0, reach)


def left_flank_spans(windows: pa.RecordBatch) -> tuple[Integers, Integers]:
    """Return the place of the left flanks of placed windows, which trainers see with another ``length_policy`` only."""
    start, end = _bounds(windows)
    reach, is_reverse = _lengths(windows["left_flank"]), _equal(windows["strand"], "-")
    return np.where(is_reverse, end, start - reach), np.where(is_reverse, end + reach, start)


def _bounds(windows: pa.RecordBatch) -> tuple[Integers, Integers]:
    start = windows["start"].fill_null(0).to_numpy()
    return start, pc.coalesce(windows["end"], pa.array(start + _lengths(windows["sequence"]))).to_numpy()


def _lengths(texts: pa.Array) -> Integers:
    lengths: Integers = pc.utf8_length(texts).to_numpy().astype(np.int64)
    return lengths


def _equal(texts: pa.Array, value: str) -> npt.NDArray[np.bool_]:
    equal: npt.NDArray[np.bool_] = pc.equal(texts, value).fill_null(False).to_numpy(zero_copy_only=False)
    return equal
