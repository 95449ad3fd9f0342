"""Compiled loops over columns of alleles: which are normal as they stand, and in what order they lie.

Nothing here raises, whatever the source says. Import inside functions only: numba takes a while.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]
Positions = npt.NDArray[np.int64]

#: Answers of :func:`classify_alleles`.
UNDECIDED, NORMAL, NORMAL_IN_UPPER_CASE = 0, 1, 2

#: Of so many alleles at one position the order is found by insertion; more are left to a general sort.
MOST_TIES = 32

#: The base in upper case that a byte stands for, or 0.
_BASE = np.zeros(256, dtype=np.uint8)
for _letter in b"ACGT":
    _BASE[_letter] = _BASE[_letter + 32] = _letter


class AlleleColumns(NamedTuple):
    """Alleles as Arrow holds them, read-only; a text begins at ``*_at[row]`` in ``*_text`` and ends at the next one.

    ``pos`` is 1-based, of shape (rows,); offsets have the shape (rows + 1,).
    """

    pos: Positions
    ref_at: Offsets
    ref_text: Bytes
    alt_at: Offsets
    alt_text: Bytes


@numba.njit(nogil=True, cache=True)
def classify_alleles(
    columns: AlleleColumns, bases: Bytes, first: int, checked: bool, length: int, longest: int
) -> Bytes:
    """Return uint8 per allele: whether it is sound and normal as it stands, but for lower case.

    Parameters
    ----------
    columns
        ``pos`` may have any value, the texts any bytes.
    bases, first
        A part of the contig, upper-case, and where it begins, 0-based; REF of an allele beyond it stays undecided.
        Without ``checked`` it is not looked at, and alleles need only be trimmed.
    length, longest
        Of the contig, and of the longest allele accepted, in bp.

    Notes
    -----
    An allele is normal exactly if REF and ALT end in different bases, and begin in different ones unless one of
    them is a single base (Tan et al. 2015); at the contig's first base there is nothing left of it to move over.
    """
    pos, ref_at, ref_text, alt_at, alt_text = columns
    answer = np.zeros(len(pos), dtype=np.uint8)
    for row in range(len(pos)):
        ref, alt = ref_at[row], alt_at[row]
        ref_bp, alt_bp = ref_at[row + 1] - ref, alt_at[row + 1] - alt
        if not 1 <= ref_bp <= longest or not 1 <= alt_bp <= longest:
            continue
        # Compared before anything is subtracted: POS may be the smallest of all integers.
        if pos[row] < 1 or pos[row] > length - ref_bp + 1:
            continue
        start = pos[row] - 1
        if checked and not agree(ref_text, ref, ref_bp, bases, start - first):
            continue
        case = min(case_of(ref_text, ref, ref_bp), case_of(alt_text, alt, alt_bp))
        if case == 0:
            continue
        same_end = _BASE[ref_text[ref + ref_bp - 1]] == _BASE[alt_text[alt + alt_bp - 1]]
        if ref_bp > 1 and alt_bp > 1:
            normal = not same_end and _BASE[ref_text[ref]] != _BASE[alt_text[alt]]
        else:
            normal = not same_end or (ref_bp != alt_bp and (start == 0 or not checked))
        if normal:
            answer[row] = NORMAL if case == 2 else NORMAL_IN_UPPER_CASE
    return answer


@numba.njit(nogil=True, cache=True)
def agree(text: Bytes, at: int, size: int, bases: Bytes, start: int) -> bool:
    """Return whether a part of a text is, but for its case, what the bases are from ``start`` on."""
    if start < 0 or start + size > len(bases):
        return False
    same = True
    for k in range(size):
        same &= _BASE[text[at + k]] == bases[start + k]
    return same


@numba.njit(nogil=True, cache=True)
def case_of(text: Bytes, at: int, size: int) -> int:
    """Return 2 if a part of a text is of ACGT in upper case, 1 if some of it is in lower case, 0 if it is neither."""
    sequence, upper = True, True
    for k in range(at, at + size):
        base = _BASE[text[k]]
        sequence &= base != 0
        upper &= base == text[k]
    return 0 if not sequence else (2 if upper else 1)


@numba.njit(nogil=True, cache=True)
def compare_texts(at: Offsets, text: Bytes, one: int, other: int) -> int:
    """Return -1, 0 or 1: how two texts of a column stand in the order of their bytes."""
    one_from, other_from = at[one], at[other]
    one_size, other_size = at[one + 1] - one_from, at[other + 1] - other_from
    for k in range(min(one_size, other_size)):
        a, b = text[one_from + k], text[other_from + k]
        if a != b:
            return -1 if a < b else 1
    return 0 if one_size == other_size else (-1 if one_size < other_size else 1)


@numba.njit(nogil=True, cache=True)
def compare_alleles(columns: AlleleColumns, one: int, other: int) -> int:
    """Return -1, 0 or 1: how REF and ALT of two rows stand in the order of their bytes."""
    step = compare_texts(columns.ref_at, columns.ref_text, one, other)
    return step if step != 0 else compare_texts(columns.alt_at, columns.alt_text, one, other)


@numba.njit(nogil=True, cache=True)
def compare_neighbours(columns: AlleleColumns) -> npt.NDArray[np.int8]:
    """Return int8, shape (rows - 1,): how each (pos, ref, alt) stands to the next: -1 before, 0 equal, 1 after."""
    pos = columns.pos
    steps = np.empty(max(len(pos) - 1, 0), dtype=np.int8)
    for row in range(len(steps)):
        if pos[row] == pos[row + 1]:
            steps[row] = compare_alleles(columns, row, row + 1)
        else:
            steps[row] = -1 if pos[row] < pos[row + 1] else 1
    return steps


@numba.njit(nogil=True, cache=True)
def order_ties(order: Positions, columns: AlleleColumns) -> bool:
    """Bring rows that ``order`` has sorted by position into the order of (pos, ref, alt), in place and stably.

    Returns
    -------
    bool
        False if more than ``MOST_TIES`` alleles stand at one position: ``order`` is then no order to use.
    """
    first = 0
    for i in range(1, len(order)):
        row = order[i]
        if columns.pos[row] != columns.pos[order[first]]:
            first = i
            continue
        if i - first >= MOST_TIES:
            return False
        k = i
        while k > first and compare_alleles(columns, order[k - 1], row) > 0:
            order[k] = order[k - 1]
            k -= 1
        order[k] = row
    return True
