"""Place windows of corpus records on the reference: by stated coordinates, by alignment, or as the record states.

Stated coordinates place a window only where its bases are those of the reference; otherwise the window is aligned to
the whole reference, whatever contig is stated. ``sources.corpus.aligner`` provides bases and aligner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter
from typing import Protocol

import numpy as np
import pyarrow as pa

from genolewm_assets.genome import GRCH38, ContigSet, reverse_complement
from genolewm_assets.store.tables import number_column, text_column
from genolewm_assets.windows.corpus.records import CorpusRecord

#: Maps ``(contig, start, end)`` to upper-case bases; canonical contig name, 0-based half-open.
ReferenceBases = Callable[[str, int, int], bytes]
Span = tuple[int, int]

#: Coordinates are confirmed if the bases equal the reference's in at least this share of those known in both.
MIN_AGREEMENT = 0.95
#: Share of a window that must be known in both, for its coordinates to be confirmed; as of an alignment.
MIN_KNOWN = 0.9
#: Of a spliced record only the outer exons can be compared; they must be at least this share of it, and known.
MIN_KNOWN_SPLICED = 0.5
# With fewer bases known in both, coordinates are not refuted.
_MIN_KNOWN_BASES = 20
_KNOWN = np.frombuffer(b"ACGT", dtype=np.uint8)


class PlacementHow(StrEnum):
    """Evidence of a placement.

    ``COORDINATES``: stated, and the bases agree. ``MAPPY``: aligned. ``STATED``: coordinates stated, not confirmed by
    the reference, and no other place found. ``CONTIG_NAME``: only the contig is stated. ``NONE``: not placed.
    """

    COORDINATES = "coordinates"
    MAPPY = "mappy"
    STATED = "stated"
    CONTIG_NAME = "contig_name"
    NONE = "none"


class Verdict(StrEnum):
    """Result of comparing the coordinates that a record states for a window with the reference.

    ``UNVERIFIABLE``: the genome lacks the contig, or too few bases are known. ``REFUTED``: bases or lengths differ.
    """

    NOT_STATED = "not_stated"
    UNKNOWN_CONTIG = "unknown_contig"
    CONFIRMED = "confirmed"
    UNVERIFIABLE = "unverifiable"
    REFUTED = "refuted"


@dataclass(frozen=True, slots=True)
class Placement:
    """Placement of one window on the reference.

    Attributes
    ----------
    how
        Evidence of the placement.
    contig
        Canonical name; None: not placed.
    start, end
        0-based half-open on ``contig``; None: position unknown. Of a spliced record placed as it states, those of the
        whole record.
    strand
        ``-`` if the window is the reverse complement of the reference, else ``+``; None: position unknown.
    spliced
        Whether introns are, or may be, cut out of the window.
    exact
        Whether the window equals the reference there, base for base.
    identity, coverage
        Of an alignment, 0 to 1: share of matching columns, and share of the window's bases that are aligned; else
        None.
    stated_contig, stated_start, stated_end
        Of an alignment: what the record states and the alignment does not replace. Coordinates that could not be
        compared, or the name of another contig; else None.
    """

    how: PlacementHow
    contig: str | None = None
    start: int | None = None
    end: int | None = None
    strand: str | None = None
    spliced: bool = False
    exact: bool = False
    identity: float | None = None
    coverage: float | None = None
    stated_contig: str | None = None
    stated_start: int | None = None
    stated_end: int | None = None


class WindowAligner(Protocol):
    """Finds the unique places of sequences on the reference: all are asked, then all are answered."""

    def ask(self, sequence: bytes) -> int:
        """Note upper-case bases, and return the number of their answer, from 0 on; -1 if they have no place."""

    def answer(self) -> Callable[[int], Placement | None]:
        """Return a function that gives the one place on any contig, ``exact`` not set, or None for none or several."""


@dataclass(frozen=True, slots=True)
class CorpusPlacer:
    """Places windows of records.

    Parameters
    ----------
    contigs, bases
        Contigs of the reference genome, and a function that returns the bases of an interval of it.
    aligner
        Places windows that may be human and have no confirmed coordinates; None: such windows are not aligned.
    """

    contigs: ContigSet
    bases: ReferenceBases
    aligner: WindowAligner | None = None

    def place(self, record: CorpusRecord, windows: Sequence[Span]) -> list[tuple[Verdict, Placement, int]]:
        """Place the windows ``[start, end)`` of a record, and ask the aligner where coordinates are not confirmed.

        A record of another organism is not placed, because its ``chr17`` is not the reference's.

        Returns
        -------
        list of tuple
            Of each window: the verdict on stated coordinates, the placement if the aligner finds none, and the number
            of the question to the aligner, -1 without one.
        """
        if not record.maybe_human:
            return [(Verdict.NOT_STATED, Placement(PlacementHow.NONE, spliced=record.spliced), -1)] * len(windows)
        contig = self._canonical(record.contig)
        # A spliced record is compared once: where its inner exons are is not known.
        whole = self._judge(record, contig)
        placed = []
        for window in windows:
            verdict, exact = (whole, False) if whole else self._compare_window(record, contig, window)
            placement, question = self._place(record, contig, window, verdict, exact=exact), -1
            if verdict is not Verdict.CONFIRMED and self.aligner is not None:
                question = self.aligner.ask(record.sequence[slice(*window)])
            placed.append((verdict, placement, question))
        return placed

    def with_answer(self, stated: Placement, found: Placement, sequence: bytes) -> Placement:
        """Return the place that the aligner found for a window, with what it does not replace of the stated one."""
        found = replace(found, exact=self._is_exact(sequence, found))
        if stated.how is PlacementHow.CONTIG_NAME and stated.contig == found.contig:
            return found
        return replace(found, stated_contig=stated.contig, stated_start=stated.start, stated_end=stated.end)

    def _canonical(self, name: str | None) -> str | None:
        """Return the canonical name of a contig of the genome or GRCh38; None for others, as of an older assembly."""
        found = (self.contigs.find(name) or GRCH38.find(name)) if name else None
        return found.name if found else None

    def _judge(self, record: CorpusRecord, contig: str | None) -> Verdict | None:
        """Return the verdict that holds for all windows; None: it depends on the bases of each."""
        if record.span is None:
            return Verdict.NOT_STATED
        if contig is None:
            return Verdict.UNKNOWN_CONTIG
        start, end = record.span
        size = len(record.sequence)
        fits = size <= end - start if record.spliced else size == end - start
        if not fits or any(not 0 < at < size for at in record.junctions or ()):
            return Verdict.REFUTED
        if contig not in self.contigs:
            return Verdict.UNVERIFIABLE
        if end > self.contigs[contig].length:
            return Verdict.REFUTED
        return self._compare_outer_exons(record, contig) if record.spliced else None

    def _compare_outer_exons(self, record: CorpusRecord, contig: str) -> Verdict:
        """Compare the outer exons of a transcript with both ends of its span; without junctions, nothing."""
        (start, end), size = record.span or (0, 0), len(record.sequence)
        first, last = (record.junctions[0], record.junctions[-1]) if record.junctions else (0, size)
        head, tail = record.sequence[:first], record.sequence[last:]
        if record.strand == "-":
            genomic = reverse_complement(self.bases(contig, end - first, end))
            genomic += reverse_complement(self.bases(contig, start, start + len(tail)))
        else:
            genomic = self.bases(contig, start, start + first) + self.bases(contig, end - len(tail), end)
        return _compare(head + tail, genomic, enough=MIN_KNOWN_SPLICED * size)

    def _compare_window(self, record: CorpusRecord, contig: str | None, window: Span) -> tuple[Verdict, bool]:
        """Return the verdict on the coordinates of a window of ACGT, and whether all its bases are the reference's."""
        stated = _as_stated(record, contig, window, PlacementHow.STATED)
        genomic = self.bases(str(contig), stated.start or 0, stated.end or 0)
        observed = record.sequence[slice(*window)]
        if stated.strand == "-":
            genomic = reverse_complement(genomic)
        if observed == genomic and len(observed) >= _MIN_KNOWN_BASES:
            return Verdict.CONFIRMED, True
        return _compare(observed, genomic, enough=MIN_KNOWN * len(observed)), False

    def _place(
        self, record: CorpusRecord, contig: str | None, window: Span, verdict: Verdict, *, exact: bool
    ) -> Placement:
        """Place a window by confirmed coordinates, or as the record states."""
        if verdict is Verdict.CONFIRMED:
            return _as_stated(record, contig, window, PlacementHow.COORDINATES, exact=exact)
        if verdict is Verdict.UNVERIFIABLE:
            return _as_stated(record, contig, window, PlacementHow.STATED)
        how = PlacementHow.NONE if contig is None else PlacementHow.CONTIG_NAME
        return Placement(how, contig, spliced=record.spliced)

    def _is_exact(self, sequence: bytes, placement: Placement) -> bool:
        contig, start, end = placement.contig, placement.start, placement.end
        if placement.spliced or contig is None or start is None or end is None or contig not in self.contigs:
            return False
        if end - start != len(sequence):
            return False
        genomic = self.bases(contig, start, end)
        return sequence == (reverse_complement(genomic) if placement.strand == "-" else genomic)


def _compare(observed: bytes, genomic: bytes, *, enough: float) -> Verdict:
    """Compare bases of equal number; at least ``enough`` must be known in both for them to be confirmed."""
    reference, own = np.frombuffer(genomic, np.uint8), np.frombuffer(observed, np.uint8)
    known = np.isin(reference, _KNOWN) & np.isin(own, _KNOWN)
    n, agreeing = np.count_nonzero(known), np.count_nonzero(known & (reference == own))
    if n >= _MIN_KNOWN_BASES and agreeing < MIN_AGREEMENT * n:
        return Verdict.REFUTED
    return Verdict.CONFIRMED if n >= max(enough, _MIN_KNOWN_BASES) else Verdict.UNVERIFIABLE


def _as_stated(
    record: CorpusRecord, contig: str | None, window: Span, how: PlacementHow, *, exact: bool = False
) -> Placement:
    """Place a window inside the record's span; a window of a spliced record gets the whole span."""
    start, end = record.span or (0, 0)
    strand = record.strand or "+"
    if record.spliced:
        return Placement(how, contig, start, end, strand, spliced=True)
    left = end - window[1] if strand == "-" else start + window[0]
    return Placement(how, contig, left, left + window[1] - window[0], strand, exact=exact)


#: Column and attribute of a placement, by kind.
_TEXTS = {"placement_how": "how", "placed_contig": "contig", "strand": "strand", "stated_contig": "stated_contig"}
_WHOLE = {"placed_start": "start", "placed_end": "end", "stated_start": "stated_start", "stated_end": "stated_end"}
_SHARES = {"identity": "identity", "coverage": "coverage"}
_FLAGS = {"spliced": "spliced", "placement_exact": "exact"}
_ATTRIBUTES = {**_TEXTS, **_WHOLE, **_SHARES, **_FLAGS}
#: Columns of a placement.
PLACED = tuple(_ATTRIBUTES)


def placed_columns(placements: Sequence[Placement]) -> dict[str, pa.Array]:
    """Return the columns of placements, by name."""
    columns = {column: [*map(attrgetter(name), placements)] for column, name in _ATTRIBUTES.items()}
    made = {name: text_column(columns[name]) for name in _TEXTS}
    for names, dtype in ((_WHOLE, np.int64), (_SHARES, np.float32)):
        for name in names:
            there = np.array([value is not None for value in columns[name]], np.bool_)
            made[name] = number_column(np.array([value or 0 for value in columns[name]], dtype), there)
    return made | {name: number_column(np.array(columns[name], np.bool_)) for name in _FLAGS}


def placements_of(batch: pa.RecordBatch) -> list[Placement]:
    """Return the placements of the rows of a batch with these columns."""
    columns = zip(*(batch[name].to_pylist() for name in PLACED), strict=True)
    rows = (dict(zip(_ATTRIBUTES.values(), values, strict=True)) for values in columns)
    return [Placement(**{**row, "how": PlacementHow(row["how"])}) for row in rows]
