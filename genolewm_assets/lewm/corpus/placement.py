"""Place windows of corpus records on the reference: by stated coordinates, by alignment, or by contig name alone.

Stated coordinates are used unless the reference contradicts them. The bases of the reference and the aligner are
arguments; ``sources.corpus.aligner`` provides both.
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

#: Maps ``(contig, start, end)`` to upper-case bases; canonical contig name, 0-based half-open.
ReferenceBases = Callable[[str, int, int], bytes]
Span = tuple[int, int]

#: Coordinates are confirmed if the record equals the reference in at least this share of the bases known in both.
MIN_AGREEMENT = 0.95
# With fewer bases known in both, coordinates can be neither confirmed nor refuted.
_MIN_KNOWN_BASES = 20
_KNOWN = np.frombuffer(b"ACGT", dtype=np.uint8)


class PlacementHow(StrEnum):
    """Evidence of a placement.

    ``CONTIG_NAME``: the contig is stated, the position is unknown. ``NONE``: not placed.
    """

    COORDINATES = "coordinates"
    MAPPY = "mappy"
    CONTIG_NAME = "contig_name"
    NONE = "none"


class Verdict(StrEnum):
    """Result of comparing a record's stated coordinates with the reference.

    ``UNVERIFIABLE``: the genome lacks the contig, or too few bases are known to compare.
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
        0-based half-open on ``contig``; None: position unknown. Of a spliced record placed by coordinates, those of
        the whole record.
    strand
        ``-`` if the window is the reverse complement of the reference, else ``+``; None: position unknown.
    spliced
        Whether introns are, or may be, cut out of the window.
    exact
        Whether the window equals the reference there, base for base.
    identity, coverage
        Of an alignment, 0 to 1: share of matching columns, and share of the window's bases that are aligned; else
        None.
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
    """Finds the unique place of a sequence on the reference."""

    def align(self, sequence: bytes, *, contig: str | None) -> Placement | None:
        """Return the place of a sequence, or None if there is no place or more than one.

        Parameters
        ----------
        sequence
            Upper-case bases.
        contig
            Canonical name of the only contig to search; None: all.

        Returns
        -------
        Placement or None
            With ``exact`` not set; the caller compares the bases.
        """


@dataclass(frozen=True, slots=True)
class CorpusPlacer:
    """Places windows of records.

    Parameters
    ----------
    contigs
        Contigs of the reference genome.
    bases
        Returns bases of an interval of the reference.
    aligner
        Places windows that may be human and have no usable coordinates; None: such windows are not aligned.
    """

    contigs: ContigSet
    bases: ReferenceBases
    aligner: WindowAligner | None = None

    def place(self, record: CorpusRecord, windows: Sequence[Span]) -> tuple[Verdict, list[Placement]]:
        """Place the windows of a record.

        Parameters
        ----------
        record
            The record.
        windows
            Windows ``[start, end)`` in the record, 0-based.

        Returns
        -------
        tuple
            The verdict on the record's coordinates, and one placement per window.

        Notes
        -----
        A record of another organism is not placed, because its ``chr17`` is not the reference's.
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
        """Return the canonical name of a contig in the genome or, if the genome lacks it, in GRCh38.

        Any other name gives None, so that the chr21 of an older assembly (NC_000021.8) is not taken for a contig here.
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
        """Compare a record, or the outer exons of a transcript, with the reference over the bases known in both."""
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
        reference, observed = np.frombuffer(genomic, np.uint8), np.frombuffer(head + tail, np.uint8)
        known = np.isin(reference, _KNOWN) & np.isin(observed, _KNOWN)
        if np.count_nonzero(known) < _MIN_KNOWN_BASES:
            return Verdict.UNVERIFIABLE
        agreement = np.count_nonzero(reference[known] == observed[known]) / np.count_nonzero(known)
        return Verdict.CONFIRMED if agreement >= MIN_AGREEMENT else Verdict.REFUTED

    def _by_sequence(self, record: CorpusRecord, contig: str | None, window: Span) -> Placement:
        """Place a window by alignment, or by its contig's name alone.

        A window is aligned unless it states a contig that the genome lacks.
        """
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
    """Place a window inside the record's span; a window of a spliced record gets the whole span."""
    start, end = record.span or (0, 0)
    strand = record.strand or "+"
    if record.spliced:
        return Placement(PlacementHow.COORDINATES, contig, start, end, strand, spliced=True)
    left = end - window[1] if strand == "-" else start + window[0]
    return Placement(PlacementHow.COORDINATES, contig, left, left + window[1] - window[0], strand)
