"""Check of a window's placement against the reference, by code that shares nothing with the placement rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from genolewm_assets.genome import GRCH38, ContigSet
from genolewm_assets.windows.corpus.records import CorpusRecord

#: Row of a table, by column; texts of bases are bytes.
Row = Mapping[str, Any]

_OTHER_STRAND = bytes.maketrans(b"ACGT", b"TGCA")
#: Other symbols than ACGT become a number that differs between record and reference.
_OF_RECORD, _OF_REFERENCE = (bytes(c if chr(c) in "ACGT" else other for c in range(256)) for other in (1, 2))


def count_known(bases: bytes) -> int:
    """Return how many symbols are A, C, G or T."""
    return len(bases) - len(bases.translate(None, b"ACGT"))


@dataclass(frozen=True, slots=True)
class PlacementAudit:
    """Contigs of the reference, and its bases by ``(contig, start, end, strand)``, 0-based half-open."""

    contigs: ContigSet
    bases: Callable[[str, int, int, str | None], bytes]

    @classmethod
    def of(cls, contigs: ContigSet, bases: Callable[[str, int, int], bytes]) -> PlacementAudit:
        """Return an audit that reads the forward strand, and keeps what it read last."""

        @lru_cache(1)
        def read(contig: str, start: int, end: int, strand: str | None) -> bytes:
            forward = bases(contig, start, end)
            return forward.translate(_OTHER_STRAND)[::-1] if strand == "-" else forward

        return cls(contigs, read)

    def holds(self, row: Row, record: CorpusRecord) -> bool:
        """Return whether a placement has the columns of its kind, is inside its contig, and is exact as stated."""
        how, contig = row["placement_how"], row["placed_contig"]
        if not _has_its_columns(row) or (how != "none" and not record.maybe_human):
            return False
        # It is ``coordinates`` if, and only if, the bases of the reference agree with stated coordinates.
        if record.maybe_human and (how == "coordinates") != self._bases_agree(row, record):
            return False
        if how not in ("mappy", "none") and contig != self._contig_of(record):
            return False
        if row["placed_start"] is None:
            return not row["placement_exact"]
        place = start, end, strand = row["placed_start"], row["placed_end"], row["strand"]
        known = contig in self.contigs
        is_place = strand in ("+", "-") and 0 <= start < end and not (known and end > self.contigs[contig].length)
        if not is_place or (how != "mappy" and (record.span is None or place != self._stated(row, record))):
            return False
        return (known and self._is_exact(row, contig, start, end)) is row["placement_exact"]

    def _contig_of(self, record: CorpusRecord) -> str | None:
        """Return the canonical name of the contig that a record states, of this genome or else of GRCh38."""
        found = self.contigs.find(record.contig or "") or GRCH38.find(record.contig or "")
        return found.name if found else None

    def _stated(self, row: Row, record: CorpusRecord) -> tuple[int, int, str]:
        """Return the start, end and strand that a record with a span states for a window, of a transcript the gene."""
        (first, last), strand = record.span or (0, 0), record.strand or "+"
        if record.spliced:
            return first, last, strand
        if strand == "-":
            return last - row["end"], last - row["start"], strand
        return first + row["start"], first + row["end"], strand

    def _bases_agree(self, row: Row, record: CorpusRecord) -> bool:
        """Return whether enough bases are known at the stated place, and 19 in 20 of them are those of the record."""
        contig, size, joints = self._contig_of(record) or "", len(record.sequence), record.junctions or ()
        if contig not in self.contigs or record.span is None or record.span[1] > self.contigs[contig].length:
            return False
        first, last = record.span
        if any(joint <= 0 or joint >= size for joint in joints) or last - first < size:
            return False
        if record.spliced:
            # 5' exon and 3' exon, at the ends of the gene.
            outer = [(0, joints[0]), (joints[-1], size)] if joints else []
            pieces = [(a, b, first + a if a == 0 else last - (b - a)) for a, b in outer]
            if record.strand == "-":
                pieces = [(a, b, last - b if a == 0 else first) for a, b in outer]
            needed = size / 2
        elif last - first != size:
            return False
        else:
            pieces = [(row["start"], row["end"], self._stated(row, record)[0])]
            needed = 0.9 * (row["end"] - row["start"])
        counts = [self._count_agreeing(record, contig, *piece) for piece in pieces]
        known, equal = (sum(count[n] for count in counts) for n in (0, 1))
        return known >= max(20, needed) and equal >= 0.95 * known

    def _count_agreeing(self, record: CorpusRecord, contig: str, start: int, end: int, at: int) -> tuple[int, int]:
        """Return how many bases ``[start, end)`` of a record are known on both sides from ``at`` on, how many equal."""
        genomic = self.bases(contig, at, at + end - start, record.strand or "+")
        own = record.sequence[start:end]
        if own == genomic:
            return (count_known(own),) * 2
        if len(own) != len(genomic):
            return 0, 0
        one = np.frombuffer(own.translate(_OF_RECORD), dtype=np.uint8)
        two = np.frombuffer(genomic.translate(_OF_REFERENCE), dtype=np.uint8)
        return int(((one > 2) & (two > 2)).sum()), int((one == two).sum())

    def _is_exact(self, row: Row, contig: str, start: int, end: int) -> bool:
        can_be = end - start == row["window_bp"] and not row["spliced"]
        return can_be and bool(self.bases(contig, start, end, row["strand"]) == row["sequence"])


def _has_its_columns(row: Row) -> bool:
    """Return whether exactly those columns are filled that a kind of placement has."""
    how = row["placement_how"]
    place = row["placed_start"], row["placed_end"], row["strand"]
    stated = row["stated_contig"], row["stated_start"], row["stated_end"]
    located = how in ("coordinates", "mappy", "stated")
    return (
        how in ("coordinates", "mappy", "stated", "contig_name", "none")
        and (row["placed_contig"] is not None) == (how != "none")
        and all((part is not None) == located for part in place)
        and all(
            (part is not None) == (how == "mappy") and 0 <= (part or 0) <= 1
            for part in (row["identity"], row["coverage"])
        )
        and (how == "mappy" or stated == (None, None, None))
        and (stated[0] is not None or stated[1] is None)
        and (stated[1] is None) == (stated[2] is None)
    )
