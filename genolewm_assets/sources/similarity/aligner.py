"""Alignment of windows to a span of the held-out sequence with minimap2."""

from __future__ import annotations

from pathlib import Path

import mappy
import numpy as np

from genolewm_assets.errors import FastaError
from genolewm_assets.holdouts import HeldPlace
from genolewm_assets.sources.similarity.held_part import Codes, HeldSpan
from genolewm_assets.store.tables import give_memory_back

#: minimap2's flag MM_F_EQX: equal and unequal bases have operations of their own in the CIGAR.
_EQX = 0x4000000
#: CIGAR operations, as numbers of BAM (SAM specification 1.6, §4.2).
_INSERTION, _DELETION, _INTRON, _EQUAL, _UNEQUAL = 1, 2, 3, 7, 8
#: Presets of minimap2 for genomic sequence and, by whether a sequence is transcribed, for transcripts.
_PRESETS = {False: "asm20", True: "splice"}
_IN_REPEAT = 8
_LETTERS = np.frombuffer(b"ACGTN", dtype=np.uint8)


class HeldAligner:
    """Aligns sequences, transcribed ones or others, to a span of the held-out sequence with given codes.

    Raises
    ------
    FastaError
        If minimap2 cannot index the span.
    """

    def __init__(self, span: HeldSpan, codes: Codes, folder: Path, *, transcribed: bool) -> None:
        self._span, fasta = span, folder / "held_out.fa"
        self._outside = codes & _IN_REPEAT == 0
        fasta.write_bytes(b">held\n" + _LETTERS[codes & 7].tobytes() + b"\n")
        # The C library keeps the memory of the index before this one, in pieces too small for the next.
        give_memory_back()
        self._aligner = mappy.Aligner(str(fasta), preset=_PRESETS[transcribed], n_threads=1, extra_flags=_EQX)
        if not self._aligner:
            raise FastaError("held-out sequence", "minimap2 cannot index it", remedy="Rebuild reference/genome")

    def align(self, bases: bytes) -> tuple[tuple[HeldPlace, ...], float]:
        """Return the places of all alignments, most equal bases outside repeats first, and the aligned share."""
        found: list[tuple[float, HeldPlace]] = []
        covered = np.zeros(len(bases), dtype=bool)
        for hit in self._aligner.map(bases.decode("ascii")):
            covered[hit.q_st : hit.q_en] = True
            equal, columns = self._count(hit)
            start, end = (self._span.start + at for at in (hit.r_st, hit.r_en))
            place = self._span.contig, start, end, "-" if hit.strand < 0 else "+"
            found.append((equal, HeldPlace(*place, equal / columns if columns else 0.0, columns)))
        found.sort(key=lambda scored: (-scored[0], scored[1]))
        return tuple(place for _, place in found), float(covered.mean()) if covered.size else 0.0

    def _count(self, hit: mappy.Alignment) -> tuple[int, int]:
        """Return equal bases and all columns of an alignment outside repeats; a gap is one column."""
        outside = self._outside[hit.r_st : hit.r_en]
        before = np.concatenate([[0], np.cumsum(outside)])
        at = equal = columns = 0
        for length, operation in hit.cigar:
            if operation in (_EQUAL, _UNEQUAL):
                n = int(before[at + length] - before[at])
                equal += n if operation == _EQUAL else 0
                columns += n
            elif operation in (_INSERTION, _DELETION):
                columns += int(outside[min(at, outside.size - 1)])
            at += length if operation in (_EQUAL, _UNEQUAL, _DELETION, _INTRON) else 0
        return equal, columns
