"""Compiled pooling, bit for bit that of ``pooling.pool_blocks``: sums are float64. Import inside functions only."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from genolewm_assets.own_caches import compiled

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

_SIGN, _REST = np.uint32(0x8000), np.uint32(0x7FFF)
_SHIFT, _SIGN_SHIFT = np.uint32(13), np.uint32(16)
#: A half's bits at the place of a single's are the number times 2**-112, for subnormal numbers too.
_SCALE = np.float32(2.0**112)
#: Bits of the exponent, all set in infinities and NaN.
_EXPONENT = np.uint16(0x7C00)


@compiled(nogil=True, error_model="numpy")
def widen_halves(halves: npt.NDArray[np.uint16], words: npt.NDArray[np.uint32], singles: Floats) -> bool:
    """Convert the bits of finite float16 to float32, and tell whether all are finite.

    ``halves``: uint16, shape (n,): bits of the numbers. ``words``, ``singles``: shape (n,): the same memory as uint32
    and as float32; receives the numbers.
    """
    most = np.uint16(0)
    for k in range(halves.size):
        half = np.uint32(halves[k])
        words[k] = ((half & _REST) << _SHIFT) | ((half & _SIGN) << _SIGN_SHIFT)
        most = max(most, np.uint16(halves[k] & _EXPONENT))
    for k in range(singles.size):
        singles[k] *= _SCALE
    return bool(most < _EXPONENT)


@compiled(nogil=True, error_model="numpy")
def pool_window(
    states: Floats, first: int, end: int, starts: Integers, stops: Integers, n_tokens: int, block_tokens: int,
    total: npt.NDArray[np.float64], out: Floats,
) -> bool:  # fmt: skip
    """Average the blocks of one window for each of its tuples; return False if a tuple's blocks are not in the window.

    ``states``: float32, shape (n_blocks, hidden): block means of the window. ``starts``, ``stops``: int64, shape (n,):
    blocks of each tuple, 0-based half-open. ``total``: room: float64, shape (hidden,). ``out``: float32, shape (n,
    hidden): receives the means.
    """
    n_blocks = -(-n_tokens // block_tokens)
    short = n_blocks * block_tokens - n_tokens
    for row in range(first, end):
        if not 0 <= starts[row] < stops[row] <= n_blocks:
            return False
        for k in range(total.size):
            total[k] = 0.0
        for block in range(starts[row], stops[row]):
            for k in range(total.size):
                total[k] += states[block, k]
        missing = short / block_tokens if stops[row] == n_blocks else 0.0
        if missing > 0:
            for k in range(total.size):
                total[k] -= states[stops[row] - 1, k] * missing
        weight = stops[row] - starts[row] - missing
        for k in range(total.size):
            out[row, k] = total[k] / weight
    return True
