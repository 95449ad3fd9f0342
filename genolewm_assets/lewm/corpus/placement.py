"""Where on the reference the windows of a corpus record lie: by its coordinates, by alignment, by its contig's name.

Stated coordinates are believed only as far as the reference does not contradict them. Pure: the bases of the reference
and the aligner are handed in (``sources.placement`` has both).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

import numpy as np

from genolewm_assets.errors import UnknownContigError
from genolewm_assets.genome import GRCH38, ContigSet, reverse_complement
from genolewm_assets.lewm.corpus.records import CorpusRecord

#: ``(contig, start, end)`` to upper-case bases; canonical name, 0-based half-open.
ReferenceBases = Callable[[str, int, int], bytes]
Span = tuple[int, int]

#: Share of the known reference bases that a record must agree with, and how few of them decide nothing.
MIN_AGREEMENT = 0.95
_MIN_KNOWN_BASES = 20
_KNOWN = np.frombuffer(b"ACGT", dtype=np.uint8)


class PlacementHow(StrEnum):
    """What a placement rests on."""

    COORDINATES = "coordinates"
    MAPPY = "mappy"
    CONTIG_NAME = "contig_name"
    NONE = "none"


class Verdict(StrEnum):
    """What the reference says to a record's coordinates."""

    NOT_STATED = "not_stated"
    UNKNOWN_CONTIG = "unknown_contig"
    CONFIRMED = "confirmed"
    UNVERIFIABLE = "unverifiable"
    REFUTED = "refuted"


@dataclass(frozen=True, slots=True)
class Placement:
    """Place of one window; ``start``, ``end`` are 0-based half-open on ``contig``.

    ``exact``: the window's bases are the reference's there. ``identity`` and ``coverage`` (0 to 1) are the alignment's.
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


class WindowAligner(Protocol):
    """Finds the one place on the reference that a sequence comes from."""

    def align(self, sequence: bytes, *, contig: str | None) -> Placement | None:
        """Return the place, ``exact`` left open; None where there is none, or several. ``contig``: look only there."""


@dataclass(frozen=True, slots=True)
class CorpusPlacer:
    """Places windows of records.

    Parameters
    ----------
    contigs
        Of the reference genome.
    bases
        Gives stretches of it.
    aligner
        For what may be human and has no coordinates; None: such windows stay unplaced.
    """

    contigs: ContigSet
    bases: ReferenceBases
    aligner: WindowAligner | None = None

    def place(self, record: CorpusRecord, windows: Sequence[Span]) -> tuple[Verdict, list[Placement]]:
        """Return what became of the record's coordinates, and the placement of each window ``[start, end)`` of it.

        Notes
        -----
        A record of another organism is not placed: its ``chr17`` is not ours.
        """
        if not record.maybe_human:
            return Verdict.NOT_STATED, [Placement(PlacementHow.NONE, spliced=record.spliced)] * len(windows)
        contig = self._canonical(record.contig)
        verdict = self._judge(record, contig)
        if verdict in (Verdict.CONFIRMED, Verdict.UNVERIFIABLE):
            found = [_by_coordinates(record, contig, window) for window in windows]
        else:
            found = [self._by_sequence(record, contig, window) for window in windows]
        return verdict, [
            replace(placement, exact=self._is_exact(record.sequence[start:end], placement))
            for (start, end), placement in zip(windows, found, strict=True)
        ]

    def _canonical(self, name: str | None) -> str | None:
        """Return the genome's name of a contig, or GRCh38's where the genome lacks it.

        Another name counts as none: the chr21 of an older assembly (NC_000021.8) must not pass for some other contig.
        """
        for contigs in (self.contigs, GRCH38) if name else ():
            try:
                return contigs.resolve(str(name)).name
            except UnknownContigError:
                continue
        return None

    def _judge(self, record: CorpusRecord, contig: str | None) -> Verdict:
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
        return self._compare_bases(record, contig)

    def _compare_bases(self, record: CorpusRecord, contig: str) -> Verdict:
        """Compare the record, or the outer exons of a transcript, with the reference where that has bases."""
        (start, end), size = record.span or (0, 0), len(record.sequence)
        first, last = (size, size) if not record.spliced else (0, size)
        if record.junctions:
            first, last = record.junctions[0], record.junctions[-1]
        head, tail = record.sequence[:first], record.sequence[last:]
        if record.strand == "-":
            genomic = reverse_complement(self.bases(contig, end - first, end))
            genomic += reverse_complement(self.bases(contig, start, start + len(tail)))
        else:
            genomic = self.bases(contig, start, start + first) + self.bases(contig, end - len(tail), end)
        theirs, ours = np.frombuffer(genomic, np.uint8), np.frombuffer(head + tail, np.uint8)
        known = np.isin(theirs, _KNOWN) & np.isin(ours, _KNOWN)
        if np.count_nonzero(known) < _MIN_KNOWN_BASES:
            return Verdict.UNVERIFIABLE
        agreement = np.count_nonzero(theirs[known] == ours[known]) / np.count_nonzero(known)
        return Verdict.CONFIRMED if agreement >= MIN_AGREEMENT else Verdict.REFUTED

    def _by_sequence(self, record: CorpusRecord, contig: str | None, window: Span) -> Placement:
        """Align where the genome has the contig, or no contig is named; else its name is all there is."""
        if self.aligner is not None and (contig is None or contig in self.contigs):
            found = self.aligner.align(record.sequence[slice(*window)], contig=contig)
            if found is not None:
                return found
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


def _by_coordinates(record: CorpusRecord, contig: str | None, window: Span) -> Placement:
    """Place a window inside the record's span; of a spliced record the whole span, since introns are unknown."""
    start, end = record.span or (0, 0)
    strand = record.strand or "+"
    if record.spliced:
        return Placement(PlacementHow.COORDINATES, contig, start, end, strand, spliced=True)
    left = end - window[1] if strand == "-" else start + window[0]
    return Placement(PlacementHow.COORDINATES, contig, left, left + window[1] - window[0], strand)
