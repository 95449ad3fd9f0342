"""Compiled loops over columns of alleles: which alleles are in normal form, and how neighbouring alleles compare.

No function raises, whatever the columns contain. Import this module inside functions only: importing numba is slow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from genolewm_assets.own_caches import compiled

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]
Positions = npt.NDArray[np.int64]

#: Return values of :func:`classify_alleles`.
UNDECIDED, NORMAL, NORMAL_IN_UPPER_CASE = 0, 1, 2

#: Most alleles of one position that :func:`order_ties` sorts, by insertion; beyond it the caller uses a general sort.
MOST_TIES = 32

#: Byte to upper-case base: A, C, G, T for either case, else 0.
_BASE = np.zeros(256, dtype=np.uint8)
for _letter in b"ACGT":
    _BASE[_letter] = _BASE[_letter + 32] = _letter


class AlleleColumns(NamedTuple):
    """Alleles in Arrow's memory layout, read-only arrays."""

    #: int64, shape (rows,), 1-based.
    pos: Positions
    #: ``ref_at``, ``alt_at``: int32, shape (rows + 1,): the text of a row is ``text[at[row]:at[row + 1]]``.
    ref_at: Offsets
    #: ``ref_text``, ``alt_text``: uint8: the bytes of all rows.
    ref_text: Bytes
    alt_at: Offsets
    alt_text: Bytes


@compiled(nogil=True)
def classify_alleles(
    columns: AlleleColumns, bases: Bytes, first: int, checked: bool, length: int, longest: int
) -> Bytes:
    """Classify each allele as ``NORMAL``, ``NORMAL_IN_UPPER_CASE`` or ``UNDECIDED``: uint8, shape (rows,).

    ``bases``, ``first``: a part of the contig, upper-case, and its 0-based start. An allele whose REF exceeds it stays
    undecided, as do invalid ones. ``checked``: whether REF is compared with ``bases``; if not, they are not read, and
    trimmed alleles count as normal. ``length``, ``longest``: length of the contig and of the longest allele accepted,
    in bp. The rule is that of ``variants.checks``; an indel at the contig's first base cannot move further left.
    """
    pos, ref_at, ref_text, alt_at, alt_text = columns
    answer = np.zeros(len(pos), dtype=np.uint8)
    for row in range(len(pos)):
        ref, alt = ref_at[row], alt_at[row]
        ref_bp, alt_bp = ref_at[row + 1] - ref, alt_at[row + 1] - alt
        if not 1 <= ref_bp <= longest or not 1 <= alt_bp <= longest:
            continue
        # Comparing before subtracting avoids an overflow: POS may be the smallest int64.
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


@compiled(nogil=True)
def agree(text: Bytes, at: int, size: int, bases: Bytes, start: int) -> bool:
    """Return whether ``text[at:at + size]``, in upper case, equals ``bases[start:start + size]``."""
    if start < 0 or start + size > len(bases):
        return False
    same = True
    for k in range(size):
        same &= _BASE[text[at + k]] == bases[start + k]
    return same


@compiled(nogil=True)
def case_of(text: Bytes, at: int, size: int) -> int:
    """Return 2 if ``text[at:at + size]`` is upper-case ACGT, 1 if ACGT with lower case, 0 if it has other bytes."""
    sequence, upper = True, True
    for k in range(at, at + size):
        base = _BASE[text[k]]
        sequence &= base != 0
        upper &= base == text[k]
    return 0 if not sequence else (2 if upper else 1)


@compiled(nogil=True)
def compare_texts(at: Offsets, text: Bytes, one: int, other: int) -> int:
    """Compare two texts of a column bytewise: -1 if ``one`` is smaller, 0 if they are equal, 1 if it is larger."""
    one_from, other_from = at[one], at[other]
    one_size, other_size = at[one + 1] - one_from, at[other + 1] - other_from
    for k in range(min(one_size, other_size)):
        a, b = text[one_from + k], text[other_from + k]
        if a != b:
            return -1 if a < b else 1
    return 0 if one_size == other_size else (-1 if one_size < other_size else 1)


@compiled(nogil=True)
def compare_alleles(columns: AlleleColumns, one: int, other: int) -> int:
    """Compare (ref, alt) of two rows bytewise: -1 if ``one`` is smaller, 0 if they are equal, 1 if it is larger."""
    step = compare_texts(columns.ref_at, columns.ref_text, one, other)
    return step if step != 0 else compare_texts(columns.alt_at, columns.alt_text, one, other)


@compiled(nogil=True)
def compare_neighbours(columns: AlleleColumns) -> npt.NDArray[np.int8]:
    """Compare each (pos, ref, alt) with the next: int8, shape (rows - 1,): -1 smaller, 0 equal, 1 larger."""
    pos = columns.pos
    steps = np.empty(max(len(pos) - 1, 0), dtype=np.int8)
    for row in range(len(steps)):
        if pos[row] == pos[row + 1]:
            steps[row] = compare_alleles(columns, row, row + 1)
        else:
            steps[row] = -1 if pos[row] < pos[row + 1] else 1
    return steps


@compiled(nogil=True)
def order_ties(order: Positions, columns: AlleleColumns) -> bool:
    """Sort row numbers that are sorted by position by (ref, alt) too, in place; False beyond ``MOST_TIES`` ties."""
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
