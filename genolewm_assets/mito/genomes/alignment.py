"""Align circular genomes of any rotation and strand to the reference circle.

minimap2 (Li 2018) aligns linear sequences: genome and reference are cut in the middle of the longest identical
interval and flanked alike, and gaps move as far 3' as possible, across the origin too (Wilson et al. 2002).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import InputError
from genolewm_assets.genome import reverse_complement
from genolewm_assets.mito.genomes.differences import PLACEHOLDER, CirclePlacement, Difference, lay_out
from genolewm_assets.mito.genomes.rotation import canonical_rotation

if TYPE_CHECKING:
    import mappy

# Match, mismatch, then gap open and gap extend of two gap costs, of which the lesser applies. With these values up to
# four substitutions are preferred to two gaps of equal length (16182C 16183C), and two gaps to one gap and a
# substitution (309.1C 315.1C).
_SCORING = (1, 9, 9, 3, 24, 1)
_K, _W = 15, 5
_EQX = 0x4000000  # MM_F_EQX: the CIGAR distinguishes matches from mismatches
_INSERTION, _DELETION, _MATCH = 1, 2, 7
#: Least length in bases of the longest identical interval. Shorter ones can be part of a repeat; ancient hominins have
#: longer ones in common with rCRS.
MIN_SHARED_BP = 64
#: Random bases of no genome, longer than any deletion or duplication in a genome that passes quality control.
_FLANK = "".join("ACGT"[byte % 4] for byte in hashlib.shake_256(b"flank").digest(2_000))


@dataclass(frozen=True, slots=True)
class AlignedGenome:
    """One genome in the reference's orientation and numbering.

    ``differences`` are sorted by position. ``is_reversed`` tells whether the source has the other strand;
    ``first_base`` is the 0-based index of the placement's first base in the source, or in its reverse complement.
    ``placeholders`` are the 1-based positions of the reference's placeholders at which the genome has an N too.
    """

    placement: CirclePlacement
    differences: tuple[Difference, ...]
    is_reversed: bool
    first_base: int
    placeholders: tuple[int, ...] = ()


class _Gap(NamedTuple):
    """A gap: ``size`` bases of the reference (deletion) or of the genome (insertion) without a counterpart.

    It begins at base ``ref`` of the reference and base ``query`` of the genome, both 0-based in the cut sequences.
    """

    is_deletion: bool
    ref: int
    query: int
    size: int


class CircularAligner:
    """Aligns genomes to one circular reference.

    Parameters
    ----------
    reference
        One turn, upper case; an N is a placeholder (see :mod:`~genolewm_assets.mito.genomes.differences`).

    Raises
    ------
    InputError
        If the reference has fewer than :data:`MIN_SHARED_BP` bases besides placeholders.
    """

    def __init__(self, reference: str) -> None:
        self._reference = reference
        codes = np.frombuffer(reference.encode("ascii"), dtype=np.uint8)
        self._full = np.flatnonzero(codes != ord(PLACEHOLDER))
        self._bases = reference.replace(PLACEHOLDER, "")
        if len(self._bases) < MIN_SHARED_BP:
            raise InputError("reference", "too short", expected=f"{MIN_SHARED_BP} bases", got=f"{len(self._bases)}")
        self._doubled = _index(self._bases * 2)

    def align(self, sequence: str, *, where: str) -> AlignedGenome:
        """Align one complete genome: upper case, IUPAC alphabet without U; any rotation, either strand.

        Raises
        ------
        InputError
            If the genome does not align from end to end, because it is of another species, a chimera, or rearranged.
        """
        # Starting from the canonical rotation, the same one of several equally good alignments is always found.
        circle = canonical_rotation(sequence)
        is_reversed, turn, ref_turn = self._shared_stretch(circle, where)
        query = reverse_complement(circle) if is_reversed else circle
        ref = self._bases[ref_turn:] + self._bases[:ref_turn]
        turned = query[turn:] + query[:turn]
        found = sorted(self._differences(ref, turned, ref_turn, where))
        differences = tuple(each for each in found if not self._is_placeholder(each))
        placeholders = tuple(each.end for each in found if self._is_placeholder(each))
        placement = lay_out(self._reference, differences, placeholders)
        for strand in (sequence, reverse_complement(sequence)):
            first_base = (strand + strand).find(placement.sequence)
            if first_base >= 0 and len(placement.sequence) == len(sequence):
                return AlignedGenome(placement, differences, strand is not sequence, first_base, placeholders)
        raise AssertionError(f"{where}: the differences do not reproduce the genome")

    def _is_placeholder(self, difference: Difference) -> bool:
        return bool(difference.bases) and difference.bases == self._reference[difference.start : difference.end]

    def _shared_stretch(self, sequence: str, where: str) -> tuple[bool, int, int]:
        """Return whether the genome is on the other strand, and the middle of the longest identical interval.

        The middle is two 0-based indices: in the genome (its reverse complement if on the other strand) and in the
        reference without placeholders.
        """
        hit = next(iter(self._doubled.map(sequence)), None)
        best, middle = 0, (0, 0)
        if hit is not None:
            query = hit.q_st if hit.strand > 0 else len(sequence) - hit.q_en
            ref = hit.r_st
            for size, operation in hit.cigar:
                if operation == _MATCH and size > best:
                    best, middle = size, (query + size // 2, (ref + size // 2) % len(self._bases))
                query += 0 if operation == _DELETION else size
                ref += 0 if operation == _INSERTION else size
        if hit is None or best < MIN_SHARED_BP:
            raise _not_alignable(where, f"at most {best} bases in a row")
        return hit.strand < 0, *middle

    def _differences(self, ref: str, query: str, ref_turn: int, where: str) -> list[Difference]:
        """Return the unsorted differences of two circles cut at one position, base ``ref_turn`` of the reference."""
        # minimap2 clips ends whose alignment scores too low. The common flanks score enough to keep both ends aligned.
        hit = next(iter(_index(_FLANK + ref + _FLANK).map(_FLANK + query + _FLANK)), None)
        spanned = 0 if hit is None else hit.q_en - hit.q_st
        if hit is None or spanned < len(query) + 2 * len(_FLANK) or hit.r_en - hit.r_st < len(ref) + 2 * len(_FLANK):
            raise _not_alignable(where, f"{max(0, spanned - 2 * len(_FLANK))} of {len(query)} bases in one piece")
        places = np.roll(self._full, -ref_turn)
        found = []
        at_ref = at_query = 0
        for gap in _moved_right(_gaps(hit.cigar, -len(_FLANK)), ref, query):
            found += self._substitutions(places[at_ref : gap.ref], ref[at_ref : gap.ref], query[at_query : gap.query])
            at_ref, at_query = gap.ref, gap.query
            if gap.is_deletion:
                at_ref += gap.size
                found += self._deletions(places[gap.ref : at_ref])
            else:
                at_query += gap.size
                found += self._insertion(places[: gap.ref], query[:at_query], gap.size)
        return found

    @staticmethod
    def _substitutions(places: NDArray[np.int64], ref: str, query: str) -> list[Difference]:
        """Return the substitutions in a part without gaps; ``places`` are the reference positions of its bases."""
        ref_codes, query_codes = (np.frombuffer(text.encode("ascii"), dtype=np.uint8) for text in (ref, query))
        differing = np.flatnonzero(ref_codes != query_codes)
        return [
            Difference(place, place + 1, query[i])
            for i, place in zip(differing.tolist(), places[differing].tolist(), strict=True)
        ]

    @staticmethod
    def _deletions(places: NDArray[np.int64]) -> list[Difference]:
        """Return the deletion of the given reference positions, as two differences if it crosses the origin."""
        return [
            Difference(int(run[0]), int(run[-1]) + 1, "")
            for run in np.split(places, np.flatnonzero(np.diff(places) < 0) + 1)
            if run.size
        ]

    def _insertion(self, places: NDArray[np.int64], query: str, size: int) -> list[Difference]:
        """Return the insertion of the last ``size`` bases of ``query`` after the last of ``places``."""
        bases = query[-size:]
        if set(bases) == {PLACEHOLDER}:
            # If a run of N in the genome covers a placeholder of the reference, the inserted N belong to it.
            run = len(query) - len(query.rstrip(PLACEHOLDER)) - size
            for after in (places[len(places) - run - 1 :] + 1).tolist():
                if self._reference.startswith(bases, after):
                    return [Difference(after + i, after + i + 1, base) for i, base in enumerate(bases)]
        after = int(places[-1]) + 1
        return [Difference(after, after, bases)]


def _index(reference: str) -> mappy.Aligner:
    import mappy

    return mappy.Aligner(seq=reference, k=_K, w=_W, scoring=_SCORING, extra_flags=_EQX)


def _not_alignable(where: str, got: str) -> InputError:
    return InputError(
        where,
        "does not align to the reference circle",
        expected="a complete genome of its species",
        got=got,
        remedy="Check species and completeness",
    )


def _gaps(cigar: list[list[int]], first: int) -> list[_Gap]:
    """Return the gaps of an alignment that begins at base ``first`` of both sequences."""
    found = []
    ref = query = first
    for size, operation in cigar:
        if operation in {_INSERTION, _DELETION}:
            found.append(_Gap(operation == _DELETION, ref, query, size))
        query += 0 if operation == _DELETION else size
        ref += 0 if operation == _INSERTION else size
    return found


def _moved_right(gaps: list[_Gap], ref: str, query: str) -> list[_Gap]:
    """Return gaps moved as far right as possible without an additional mismatch; adjacent gaps of one kind are merged.

    The last gap returned is empty and marks the end of both sequences.
    """
    todo, done = list(gaps), [_Gap(True, len(ref), len(query), 0)]
    while todo:
        gap, follower = todo.pop(), done[-1]
        ref_size, query_size = (gap.size, 0) if gap.is_deletion else (0, gap.size)
        room = follower.ref - gap.ref - ref_size
        step = 0
        while step < room:
            r, q = gap.ref + step, gap.query + step
            if ref[r] != query[q] and ref[r + ref_size] == query[q + query_size]:
                break
            step += 1
        moved = _Gap(gap.is_deletion, gap.ref + step, gap.query + step, gap.size)
        if step == room and follower.size and gap.is_deletion == follower.is_deletion:
            todo.append(moved._replace(size=gap.size + done.pop().size))
        else:
            done.append(moved)
    return done[::-1]
