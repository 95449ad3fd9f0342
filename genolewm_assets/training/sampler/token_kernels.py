"""Compiled loops over bases and tokens: unpacking, 6-mers, edited windows as text. Import inside functions only."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from genolewm_assets.edits import kernel
from genolewm_assets.training.sampler.edit_kernels import POS, REF, Bytes, Integers, Room, Site, write_edited
from genolewm_assets.training.sampler.rule_kernels import CHANGE, LOCUS, SHIFT

Tokens: TypeAlias = npt.NDArray[np.int16]

_TOKEN_BP = 6
_ROWS = np.arange(3)
_LETTERS = np.uint32(int.from_bytes(b"ACGT", "little"))
#: uint8, shape (256, 4): the four codes of every packed byte; the first base is in the lowest bits.
_UNPACKED = ((np.arange(256)[:, None] >> np.array([0, 2, 4, 6])) & 3).astype(np.uint8)


@kernel
def unpack_windows(packed: Bytes, first: Integers, at: Integers, codes: Bytes) -> None:
    """Unpack windows with their flanks.

    ``packed``: uint8: four bases per byte, the first in the lowest bits. ``first``: int64, shape (n_windows,): first
    byte of each window. ``at``: int64, shape (n_windows + 1,): index of each window's first base in ``codes``, and of
    the end. ``codes``: uint8, shape (n_bases,): receives A 0, C 1, G 2, T 3.
    """
    for window in range(first.size):
        byte, here, end = first[window], at[window], at[window + 1]
        whole = (end - here) >> 2
        # Slices show the compiler that no index is negative: it then unpacks many bytes at once.
        bytes_, bases = packed[byte : byte + whole], codes[here : here + 4 * whole]
        for k in range(bytes_.size):
            four = bytes_[k]
            bases[4 * k] = four & np.uint8(3)
            bases[4 * k + 1] = (four >> np.uint8(2)) & np.uint8(3)
            bases[4 * k + 2] = (four >> np.uint8(4)) & np.uint8(3)
            bases[4 * k + 3] = four >> np.uint8(6)
        for k in range(here + 4 * whole, end):
            codes[k] = _UNPACKED[packed[byte + whole], k - here - 4 * whole]


@kernel
def encode_codes(codes: Bytes, at: int, n: int, tokens: Tokens, to: int) -> None:
    """Write the ranks of ``n`` consecutive 6-mers, from base ``at`` on, to ``tokens[to:to + n]``."""
    bases, ranks = codes[at : at + _TOKEN_BP * n], tokens[to : to + n]
    for k in range(ranks.size):
        here = _TOKEN_BP * k
        high = (np.int16(bases[here]) << 10) | (np.int16(bases[here + 1]) << 8) | (np.int16(bases[here + 2]) << 6)
        low = (np.int16(bases[here + 3]) << 4) | (np.int16(bases[here + 4]) << 2) | np.int16(bases[here + 5])
        ranks[k] = np.int16(high | low)


@kernel
def _copy(source: Tokens, target: Tokens, start: int, stop: int) -> None:
    """Copy the tokens ``[start, stop)``; an assignment of slices takes 80 times as long as this loop."""
    these, own = source[start:stop], target[start:stop]
    for k in range(own.size):
        own[k] = these[k]


@kernel
def write_tokens(site: Site, room: Room, slot: int, source: Tokens, target: Tokens) -> None:
    """Write the tokens of a slot's edited window: those of the window, and anew those that its edits change or shift.

    ``source`` and ``target`` are int16, shape (n_tokens,).
    """
    edits, rows, n = room.edits, room.rows[slot], room.counts[slot]
    locus, shift, change = room.facts[slot, LOCUS], room.facts[slot, SHIFT], room.facts[slot, CHANGE]
    last = rows[n - 1]
    n_tokens = target.size
    # The tokens from the first edited one to the last one that holds bases of an edit; both ends clipped to the window.
    first = 0 if shift != 0 else locus // _TOKEN_BP
    moves_right = change != 0 and shift == 0
    end = edits[last, POS] + edits[last, REF] + (change if moves_right else 0)
    stop = min(n_tokens, -(-max(end, 0) // _TOKEN_BP))
    _copy(source, target, 0, first)
    if stop > first:
        write_edited(site, edits, room.alt, rows, n, shift, first * _TOKEN_BP, stop * _TOKEN_BP, room.codes)
        encode_codes(room.codes, 0, stop - first, target, first)
    stop = max(first, stop)
    if moves_right:
        encode_codes(site.codes, site.at + stop * _TOKEN_BP - change, n_tokens - stop, target, stop)
    else:
        _copy(source, target, stop, n_tokens)


@kernel
def count_changes(source: Tokens, target: Tokens, first: int, stop: int, block_tokens: int) -> tuple[int, int, int]:
    """Count the tokens of the blocks ``[first, stop)``, those that differ between windows, and the blocks with one."""
    n_tokens = source.size
    changed, blocks = 0, 0
    for block in range(first, stop):
        own = 0
        for at in range(block * block_tokens, min(n_tokens, (block + 1) * block_tokens)):
            own += source[at] != target[at]
        changed += own
        blocks += own > 0
    return min(n_tokens, stop * block_tokens) - first * block_tokens, changed, blocks


@kernel
def write_edited_windows(
    codes: Bytes, at: Integers, sizes: npt.NDArray[np.int32], window: Integers, n_edits: Integers, shift: Integers,
    edits: Integers, pool: Bytes, letters: Bytes, own: Bytes, text: Bytes,
) -> None:  # fmt: skip
    """Write edited windows as upper-case ASCII.

    ``window``, ``n_edits``, ``shift``: int64, shape (n,): number of each tuple's window, not falling, its edits, and
    the shift of the bases left of them. ``edits``: int64, shape (n, 3, 4): columns of ``edit_kernels``; alts begin in
    ``pool``. ``pool``: uint8: bases of alts, as codes. ``letters``, ``own``: room: uint8, of the size of ``pool``, and
    of the longest window with its flanks. ``text``: uint8, shape (n, width); bytes past the end of a window are left
    alone.
    """
    _spell(pool, 0, pool.size, letters)
    spelt = -1
    for one in range(window.size):
        number = window[one]
        left, size, right = sizes[number]
        if number != spelt:
            # Bases are spelt once per window: the edited ones are copied.
            _spell(codes, at[number], at[number + 1] - at[number], own)
            spelt = number
        site = Site(own, np.int64(left), np.int64(left), np.int64(size), np.int64(right), -1, 0, False, 0, 0, True)
        write_edited(site, edits[one], letters, _ROWS, n_edits[one], shift[one], 0, site.size, text[one])


@kernel
def _spell(codes: Bytes, at: int, size: int, letters: Bytes) -> None:
    bases, own = codes[at : at + size], letters[:size]
    for k in range(size):
        # The four letters are the bytes of one number: shifts are done for many bases at once, look-ups are not.
        own[k] = np.uint8((_LETTERS >> (np.uint32(bases[k]) << np.uint32(3))) & np.uint32(255))
