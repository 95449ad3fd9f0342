"""Compiled comparison of edited windows with the reference. Import inside functions only: importing numba is slow."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from genolewm_assets.own_caches import compiled

#: Most differences of one window that are kept.
MOST_DIFFERENCES = 12
#: Longest insertion or deletion that is tried, in bases, and longest side of a replacement.
_LONGEST, _LONGEST_SIDE = 300, 12
#: Bases behind a difference that must agree to take a single substitution at once, and that are compared to choose.
_SURE, _COMPARED = 12, 48

#: Bases that are compared at once where nothing differs.
_BLOCK = 256
#: Bases of a token; longest allele that neighbouring differences are joined to, in bases.
TOKEN_BP, _LONGEST_JOINED = 6, 600
#: Alleles that the differences of a window make at most, each alone or with the next ones.
MOST_ALLELES = MOST_DIFFERENCES * (MOST_DIFFERENCES + 1) // 2
_OTHER, _UNMASKED = np.uint8(4), np.uint8(7)
_LETTERS = np.frombuffer(b"ACGTN", dtype=np.uint8)

Codes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]


@compiled(nogil=True)
def _matches(edited: Codes, reference: Codes, i: int, j: int, size: int) -> int:
    n = 0
    for step in range(size):
        if i + step >= edited.size or j + step >= reference.size:
            return n + (size - step) // 2
        n += edited[i + step] == reference[j + step]
    return n


@compiled(nogil=True)
def _step(edited: Codes, reference: Codes, i: int, j: int) -> tuple[int, int]:
    """Return how many bases of the reference and of the edited window the difference at ``j``, ``i`` has."""
    if _matches(edited, reference, i + 1, j + 1, _SURE) == _SURE:
        return 1, 1
    best, lost, gained = -1.0, 1, 1
    for size in range(_LONGEST + 1):
        # Even if all bases behind it agree, a longer one is no better.
        if best >= _COMPARED - 0.01 * size:
            break
        for kind in range(2 if size else 1):
            if size == 0:
                n_ref, n_alt = 1, 1
            elif kind == 0:
                n_ref, n_alt = 0, size
            else:
                n_ref, n_alt = size, 0
            score = _matches(edited, reference, i + n_alt, j + n_ref, _COMPARED) - 0.01 * size
            if score > best:
                best, lost, gained = score, n_ref, n_alt
    for n_ref in range(1, _LONGEST_SIDE + 1):
        for n_alt in range(1, _LONGEST_SIDE + 1):
            if best >= _COMPARED - 0.5 * max(n_ref, n_alt):
                continue
            score = _matches(edited, reference, i + n_alt, j + n_ref, _COMPARED) - 0.5 * max(n_ref, n_alt)
            if score > best:
                best, lost, gained = score, n_ref, n_alt
    return lost, gained


@compiled(nogil=True)
def find_differences(edited: Codes, reference: Codes, found: npt.NDArray[np.int64]) -> int:
    """Write the differences of an edited window from the reference, from left to right, and return their number.

    ``found``: int64, shape (MOST_DIFFERENCES, 4): first base and number of bases in the reference, the same in the
    window. -1 if there are more. What lies behind the reference's end is not compared.
    """
    i = j = n = 0
    while i < edited.size:
        while i + _BLOCK <= edited.size and j + _BLOCK <= reference.size:
            # Slices show the compiler that no index is negative: it then compares many bases at once.
            ours, theirs, differs = edited[i : i + _BLOCK], reference[j : j + _BLOCK], np.uint8(0)
            for k in range(ours.size):
                differs = np.uint8(differs | np.uint8(ours[k] ^ theirs[k]))
            if differs:
                break
            i, j = i + _BLOCK, j + _BLOCK
        if i == edited.size:
            return n
        if j >= reference.size:
            return n
        if edited[i] == reference[j]:
            i += 1
            j += 1
            continue
        if n == len(found):
            return -1
        lost, gained = _step(edited, reference, i, j)
        lost, gained = min(lost, reference.size - j), min(gained, edited.size - i)
        found[n, 0], found[n, 1], found[n, 2], found[n, 3] = j, lost, i, gained
        n += 1
        i += gained
        j += lost
    return n


@compiled(nogil=True)
def read_tokens(tokens: npt.NDArray[np.int16], edited: npt.NDArray[np.uint16], sizes: Integers) -> None:
    """Write the bases that the tokens of each window spell, and how many; what is below 0 is no token.

    ``tokens``: shape (n, n_tokens); ``edited``: shape (n, 3 * n_tokens), two bases a number, the first in the low byte.
    """
    spelt = np.empty((1 << (2 * TOKEN_BP), TOKEN_BP // 2), np.uint16)
    for token in range(spelt.shape[0]):
        for pair in range(spelt.shape[1]):
            bases = token >> (2 * (TOKEN_BP - 2 - 2 * pair))
            spelt[token, pair] = ((bases >> 2) & 3) | ((bases & 3) << 8)
    for row in range(tokens.shape[0]):
        at = np.uint64(0)
        for token in tokens[row]:
            if token >= 0:
                ours = spelt[np.uint64(token)]
                for pair in range(TOKEN_BP // 2):
                    edited[row, at + np.uint64(pair)] = ours[pair]
                at += np.uint64(TOKEN_BP // 2)
        sizes[row] = 2 * at


@compiled(nogil=True)
def compare_edited(
    edited: Codes, sizes: Integers, window: Integers, expected: Codes, at: Integers, found: Integers, n_found: Integers
) -> None:
    """Write the differences of each edited window of a batch, as ``find_differences`` does, and their number.

    ``expected``: bases that the windows are compared with, which begin at ``at``; ``window``: that of each edited one.
    """
    for row in range(window.size):
        reference = expected[at[window[row]] : at[window[row] + 1]]
        n_found[row] = find_differences(edited[row, : sizes[row]], reference, found[row])


@compiled(nogil=True)
def find_ends(
    edited: Codes, sizes: Integers, window: Integers, expected: Codes, at: Integers, rows: Integers, ends: Integers
) -> None:
    """Write where the last difference of some edited windows ends, in the edited and in the expected bases: (n, 2).

    Behind it the longest end of the window agrees, whatever the edits before it gained or lost.
    """
    for row in rows:
        size, first = sizes[row], at[window[row]]
        length, longest = at[window[row] + 1] - first, -1
        for lost in range(-_LONGEST_JOINED, _LONGEST_JOINED + 1):
            end = min(size, length - lost)
            k = end
            while k > 0 and k + lost > 0 and edited[row, k - 1] == expected[first + k + lost - 1]:
                k -= 1
            if end - k > longest:
                longest, ends[row, 0], ends[row, 1] = end - k, k, k + lost


@compiled(nogil=True)
def write_around(
    found: Integers, n_found: Integers, ends: Integers, sizes: Integers, rows: Integers, reach: int, around: Integers
) -> int:
    """Write the bases of some windows that are near a difference, up to ``reach`` from it; return how many stretches.

    ``found``: int64, shape (n, most, 2): first base and number of bases of each difference; ``ends``: where the last
    one ends if there are more. ``around``: int64, shape (most, 3): number in ``rows``, first base, end.
    """
    n = 0
    for at in range(rows.size):
        row = rows[at]
        for k in range(max(1, n_found[row])):
            end = ends[row] if n_found[row] < 0 else found[row, k, 0] + found[row, k, 1]
            start, end = max(0, found[row, k, 0] - reach), min(sizes[row], end + reach)
            if k and start < around[n - 1, 2]:
                n -= 1
                start = around[n, 1]
            around[n, 0], around[n, 1], around[n, 2] = at, start, end
            n += 1
    return n


@compiled(nogil=True)
def write_alleles(
    edited: Codes, window: Integers, expected: Codes, at: Integers, found: Integers, n_found: Integers, rows: Integers,
    is_reverse: npt.NDArray[np.bool_], alleles: Integers,
) -> int:  # fmt: skip
    """Write every variant of some edited windows, and all that neighbouring ones make together; return their number.

    ``edited`` to ``n_found`` are those of :func:`compare_edited`.

    Differences less than a token apart are one variant: a multi-nucleotide variant is an allele of its own, not the
    single-base ones that it can be cut into, and where a deletion with an insertion is cut depends on the alignment.
    An insertion or deletion is told as far to the right as can be. It is moved to the left on the reference, up to the
    difference before, and has a neighbouring base, as VCF wants: the one before, on the reference's strand.
    ``alleles``: int64, shape (most, 5): row, first base and end in the expected bases, the same in the edited ones.
    """
    n, merged = 0, np.empty((MOST_DIFFERENCES, 4), np.int64)
    for row in rows:
        n_merged, begin = 0, at[window[row]]
        for k in range(n_found[row]):
            start, end = found[row, k, 0], found[row, k, 0] + found[row, k, 1]
            first, stop = found[row, k, 2], found[row, k, 2] + found[row, k, 3]
            if n_merged and start - merged[n_merged - 1, 1] < TOKEN_BP:
                n_merged -= 1
                start, first = merged[n_merged, 0], merged[n_merged, 2]
            merged[n_merged, 0], merged[n_merged, 1], merged[n_merged, 2], merged[n_merged, 3] = start, end, first, stop
            n_merged += 1
        for one in range(n_merged):
            for other in range(one, n_merged):
                start, end, first, stop = merged[one, 0], merged[other, 1], merged[one, 2], merged[other, 3]
                if end - start > _LONGEST_JOINED:
                    continue
                if start == end or first == stop:
                    # The base before it must be equal in both.
                    low = merged[one - 1, 1] + 1 if one else 0
                    while not is_reverse[row] and start > low:
                        last = edited[row, stop - 1] if start == end else expected[begin + end - 1]
                        if expected[begin + start - 1] != last:
                            break
                        start, end, first, stop = start - 1, end - 1, first - 1, stop - 1
                    if is_reverse[row] or start == 0:
                        end, stop = end + 1, stop + 1
                    else:
                        start, first = start - 1, first - 1
                alleles[n, 0], alleles[n, 1], alleles[n, 2], alleles[n, 3], alleles[n, 4] = row, start, end, first, stop
                n += 1
    return n


@compiled(nogil=True)
def spell(bases: Codes, start: Integers, end: Integers, is_reverse: npt.NDArray[np.bool_], text: Codes) -> None:
    """Write the letters of stretches ``[start, end)`` one after the other, of some the other strand."""
    at = 0
    for row in range(start.size):
        for k in range(end[row] - start[row]):
            code = (bases[end[row] - 1 - k] if is_reverse[row] else bases[start[row] + k]) & _UNMASKED
            if is_reverse[row] and code < _OTHER:
                code = np.uint8(3) - code
            text[at] = _LETTERS[min(code, _OTHER)]
            at += 1


@compiled(nogil=True)
def differing_bases(
    left: Codes,
    left_at: Integers,
    sequence: Codes,
    sequence_at: Integers,
    right: Codes,
    right_at: Integers,
    rows: Integers,
    start: Integers,
    end: Integers,
    is_reverse: npt.NDArray[np.bool_],
    has_flanks: npt.NDArray[np.bool_],
    contig: Codes,
    differing: Integers,
) -> None:
    """Write how many bases of some windows, of some with their flanks, differ from the contig's at their place."""
    for row in rows:
        n = sequence_at[row + 1] - sequence_at[row]
        n_left = left_at[row + 1] - left_at[row] if has_flanks[row] else 0
        n_right = right_at[row + 1] - right_at[row] if has_flanks[row] else 0
        first = start[row] - (n_right if is_reverse[row] else n_left)
        last = end[row] + (n_left if is_reverse[row] else n_right)
        size = n_left + n + n_right
        if last - first != size:
            differing[row] = max(size, last - first)
            continue
        for k in range(size):
            if k < n_left:
                stated = left[left_at[row] + k]
            elif k < n_left + n:
                stated = sequence[sequence_at[row] + k - n_left]
            else:
                stated = right[right_at[row] + k - n_left - n]
            at = last - 1 - k if is_reverse[row] else first + k
            base = contig[at] & _UNMASKED if 0 <= at < contig.size else _OTHER
            if is_reverse[row] and base < _OTHER:
                base = np.uint8(3) - base
            differing[row] += (stated & _UNMASKED) != base
