"""Compiled writing of edited windows as text. Import inside functions only: importing numba is slow."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from genolewm_assets.edits import kernel
from genolewm_assets.training.sampler.edit_kernels import Bytes, Integers, Site, write_edited

_ROWS = np.arange(3)
_LETTERS = np.uint32(int.from_bytes(b"ACGT", "little"))


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
