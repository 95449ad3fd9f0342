"""Held-out intervals: merged, and whether a place on the reference meets one."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from genolewm_assets.audit.reading.contig_names import canonical_name
from genolewm_assets.audit.reading.package_files import PackageFiles
from genolewm_assets.errors import CorruptResourceError


class Span(NamedTuple):
    """Bases ``[start, end)`` of a contig, 0-based."""

    contig: str
    start: int
    end: int


class HeldSpans:
    """Held-out bases, of all holdouts together; spans may be given in any order and overlap."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._starts: defaultdict[str, list[int]] = defaultdict(list)
        self._ends: defaultdict[str, list[int]] = defaultdict(list)
        for contig, start, end in sorted(spans):
            starts, ends = self._starts[contig], self._ends[contig]
            if ends and start <= ends[-1]:
                ends[-1] = max(ends[-1], end)
            else:
                starts.append(start)
                ends.append(end)

    @classmethod
    def of_package(cls, files: PackageFiles) -> HeldSpans:
        """Read the intervals that a package is audited against."""
        rows = files.holdout_rows("intervals", ("contig", "start", "end"))
        return cls(_held_span(row) for row in rows)

    def __iter__(self) -> Iterator[Span]:
        for contig, starts in self._starts.items():
            yield from (Span(contig, *bounds) for bounds in zip(starts, self._ends[contig], strict=True))

    @property
    def contigs(self) -> list[str]:
        """Contigs with a held-out base."""
        return list(self._starts)

    def shared_bp(self, contig: str, start: int, end: int) -> int:
        """Return how many held-out bases the place ``[start, end)``, 0-based, has."""
        starts, ends = self._starts.get(contig, []), self._ends.get(contig, [])
        shared, at = 0, max(0, bisect_right(starts, start) - 1)
        while at < len(starts) and starts[at] < end:
            shared += max(0, min(end, ends[at]) - max(start, starts[at]))
            at += 1
        return shared


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


def emitted_span(row: dict[str, Any]) -> Span:
    """Return the bases that a placed window can show a trainer: the window, and the flank that deletions draw from."""
    contig, reach = canonical_name(row["contig"]), len(row["right_flank"])
    # Where the strand is not known, the flank may lie on either side.
    before, behind = (0 if row["strand"] == "+" else reach), (0 if row["strand"] == "-" else reach)
    end = row["start"] + len(row["sequence"]) if row["end"] is None else row["end"]
    return Span(contig, row["start"] - before, end + behind)


def left_flank_span(row: dict[str, Any]) -> Span:
    """Return the place of the left flank of a placed window, which trainers see with another ``length_policy`` only."""
    contig, reach = canonical_name(row["contig"]), len(row["left_flank"])
    if row["strand"] == "-":
        end = row["start"] + len(row["sequence"]) if row["end"] is None else row["end"]
        return Span(contig, end, end + reach)
    return Span(contig, row["start"] - reach, row["start"])
