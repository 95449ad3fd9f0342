"""Pooling of encoder states: block means, the blocks around an edit, and the mean of blocks.

A cached row holds the means of consecutive blocks of DNA tokens, special tokens excluded; the last block may be
shorter. DNA tokens are counted in 6-mers for every model: a block of 64 tokens is 384 bases. Not here: encoding.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from enum import StrEnum
from threading import local
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import ConfigurationError, InputError

#: DNA tokens (6-mers) per block.
BLOCK_TOKENS = 64

#: Tokens on each side of an edit that belong to its neighbourhood.
RADIUS_TOKENS = 256

#: ``both``: the neighbourhood on both sides of the locus; ``right``: from the block of the locus on, because the states
#: of a causal model left of an edit do not change.
PoolSide = Literal["both", "right"]


def block_count(n_tokens: int, block_tokens: int = BLOCK_TOKENS) -> int:
    """Return the number of blocks of a window of ``n_tokens`` DNA tokens, including a shorter last block."""
    if n_tokens < 1 or block_tokens < 1:
        raise InputError(
            "blocks", "size out of range", expected="at least 1 token", got=f"{n_tokens} in blocks of {block_tokens}"
        )
    return -(-n_tokens // block_tokens)


def block_means(states: NDArray[np.float32], block_tokens: int = BLOCK_TOKENS) -> NDArray[np.float32]:
    """Average the states of consecutive blocks of tokens.

    Parameters
    ----------
    states
        float32, shape (n_tokens, hidden): DNA tokens only, tags excluded.

    Returns
    -------
    ndarray
        float32, shape (n_blocks, hidden). The last block is the mean of its own tokens, if it is shorter.
    """
    n_tokens, hidden = states.shape
    n_blocks = block_count(n_tokens, block_tokens)
    whole = n_tokens // block_tokens
    means = np.empty((n_blocks, hidden), dtype=np.float64)
    # Sums in float64, so that the order of addition does not change the float32 result.
    blocks = states[: whole * block_tokens].reshape(whole, block_tokens, hidden)
    blocks.mean(axis=1, dtype=np.float64, out=means[:whole])
    if n_blocks > whole:
        states[whole * block_tokens :].mean(axis=0, dtype=np.float64, out=means[whole])
    return means.astype(np.float32)


def locus_blocks(
    token: int,
    n_tokens: int,
    radius_tokens: int = RADIUS_TOKENS,
    block_tokens: int = BLOCK_TOKENS,
    side: PoolSide = "both",
) -> tuple[int, int]:
    """Return the blocks that cover a locus and its neighbourhood.

    Parameters
    ----------
    token
        0-based index, among the DNA tokens, of the first token that changes.
    n_tokens, block_tokens
        DNA tokens of the window, and of a block.
    radius_tokens
        Tokens ``token - radius_tokens`` to ``token + radius_tokens``, both included and clipped to the window, are
        covered; every block that contains one of them is returned.
    side
        ``right`` covers tokens from ``token`` on only.

    Returns
    -------
    tuple[int, int]
        Block indices, 0-based half-open. With the defaults and without clipping: 9 blocks; 5 for ``right``.

    Raises
    ------
    InputError
        If the locus is not in the window, a size is out of range, or the side is unknown.

    Examples
    --------
    >>> locus_blocks(1000, 2048)
    (11, 20)
    """
    n_blocks = block_count(n_tokens, block_tokens)
    if not 0 <= token < n_tokens or radius_tokens < 0:
        raise InputError(
            f"locus token {token}",
            "locus or radius out of range",
            expected=f"a token from 0 to {n_tokens - 1} and a radius from 0",
            got=f"token {token}, radius {radius_tokens}",
        )
    if side not in {"both", "right"}:
        raise InputError("pooling", "unknown side", expected="'both' or 'right'", got=repr(side))
    first = token if side == "right" else max(0, token - radius_tokens)
    return first // block_tokens, min(n_blocks, (token + radius_tokens) // block_tokens + 1)


def pool_blocks(
    states: NDArray[Any], start: int, stop: int, n_tokens: int, block_tokens: int = BLOCK_TOKENS
) -> NDArray[np.float32]:
    """Return the mean state over the tokens of consecutive blocks.

    Parameters
    ----------
    states
        Floating, shape (..., n_blocks, hidden): block means. Blocks past the end of the window (padding of a
        fixed-shape store) are never read.
    start, stop
        Block indices, 0-based half-open.
    n_tokens
        DNA tokens of the window; a shorter last block is weighted by its number of tokens.

    Returns
    -------
    ndarray
        float32, shape (..., hidden).

    Raises
    ------
    InputError
        If the blocks are not in the window, or the states have fewer blocks than the window.
    """
    n_blocks = block_count(n_tokens, block_tokens)
    if not 0 <= start < stop <= n_blocks or states.ndim < 2 or states.shape[-2] < n_blocks:
        raise InputError(
            f"blocks [{start}, {stop})",
            "not blocks of the window",
            expected=f"0 <= start < stop <= {n_blocks} and states of {n_blocks} blocks",
            got=f"states of shape {states.shape}",
        )
    # Sums in float64, so that the order of addition does not change the float32 result.
    total = states[..., start:stop, :].sum(axis=-2, dtype=np.float64)
    missing = n_blocks * block_tokens - n_tokens if stop == n_blocks else 0
    if missing:
        total -= states[..., stop - 1, :] * np.float64(missing / block_tokens)
    mean: NDArray[np.float32] = (total / (stop - start - missing / block_tokens)).astype(np.float32)
    return mean


class TupleKind(StrEnum):
    """Blocks over which a tuple's states are averaged: those around the edit (``local``), or all (``global``)."""

    LOCAL = "local"
    GLOBAL = "global"


@dataclass(frozen=True, slots=True)
class Pooling:
    """The blocks over which the states of both windows of a tuple are averaged.

    Parameters
    ----------
    kind
        ``local`` or ``global``.
    radius_tokens, side
        Neighbourhood of a local state; see :func:`locus_blocks`.
    block_tokens
        DNA tokens per block, as in the state cache.

    Raises
    ------
    InputError
        If radius, side or block size is out of range.
    """

    kind: TupleKind = TupleKind.LOCAL
    radius_tokens: int = RADIUS_TOKENS
    side: PoolSide = "both"
    block_tokens: int = BLOCK_TOKENS

    def __post_init__(self) -> None:
        # This call raises if radius, side or block size is out of range.
        locus_blocks(0, 1, self.radius_tokens, self.block_tokens, self.side)

    @classmethod
    def named(cls, kind: str, radius_tokens: int, side: PoolSide) -> Pooling:
        """Return the pooling of a kind given by name; an unknown one is a ConfigurationError."""
        if kind not in set(TupleKind):
            raise ConfigurationError(
                "kind", "unknown kind of tuple", expected=f"one of {sorted(TupleKind)}", got=repr(kind)
            )
        return cls(TupleKind(kind), radius_tokens, side)

    def blocks(self, locus_token: int, n_tokens: int) -> tuple[int, int]:
        """Return the first block and the block after the last one (0-based half-open) that a tuple is pooled over."""
        if self.kind is TupleKind.GLOBAL:
            return 0, block_count(n_tokens, self.block_tokens)
        return locus_blocks(locus_token, n_tokens, self.radius_tokens, self.block_tokens, self.side)

    def tokens(self, locus_token: int, n_tokens: int) -> tuple[int, int]:
        """Return the first token and the token after the last one (0-based half-open) that a tuple is pooled over."""
        start, stop = self.blocks(locus_token, n_tokens)
        return start * self.block_tokens, min(n_tokens, stop * self.block_tokens)

    def reach(self, first_token: int, last_token: int, n_tokens: int) -> tuple[int, int]:
        """Return the tokens, 0-based half-open, at which a further edit can lie in one pooled span with the others.

        ``first_token`` and ``last_token`` are those of the first and the last edit so far, both in the pooled span of
        the first, which is the locus. A further edit right of it lies in its span; one left of it becomes the locus,
        and its span must hold the last edit.
        """
        low = bisect_left(range(first_token + 1), last_token + 1, key=lambda token: self.tokens(token, n_tokens)[1])
        return low, self.tokens(first_token, n_tokens)[1]


class TuplePooler:
    """Averages the cached states of windows over the blocks of their tuples; each thread keeps its own memory."""

    def __init__(self) -> None:
        self._memory = local()

    def pool(
        self,
        states: NDArray[Any],
        blocks: NDArray[np.int64],
        n_tokens: int,
        block_tokens: int,
        out: NDArray[np.float32],
    ) -> bool:
        """Write to ``out``, float32 (n, hidden), the means of :func:`pool_blocks` for every tuple of one window.

        ``states``: floating, shape (n_blocks, hidden), without padding. ``blocks``: int64, shape (n, 2), half-open.
        Result: whether all states are finite; if not, ``out`` holds nothing of use. Blocks outside of the window, or
        another shape, raise InputError.
        """
        from genolewm_assets.states.pool_kernels import pool_window, widen_halves

        n_blocks = block_count(n_tokens, block_tokens)
        if states.ndim != 2 or len(states) < n_blocks or out.shape != (len(blocks), states.shape[1]):
            raise _unfit(states, blocks, n_blocks, out)
        if states.dtype == np.float16:
            words = self._words(states.size)
            wide = words.view(np.float32)
            is_finite = bool(widen_halves(np.ascontiguousarray(states).view(np.uint16).ravel(), words, wide))
            wide = wide.reshape(states.shape)
        else:
            wide = np.ascontiguousarray(states, dtype=np.float32)
            is_finite = bool(np.isfinite(wide).all())
        if is_finite:
            starts, stops = np.ascontiguousarray(blocks.T)
            total = np.empty(states.shape[1], dtype=np.float64)
            if not pool_window(wide, 0, len(blocks), starts, stops, n_tokens, block_tokens, total, out):
                raise _unfit(states, blocks, n_blocks, out)
        return is_finite

    def _words(self, size: int) -> NDArray[np.uint32]:
        """Return this thread's memory: the kernels run beside other threads."""
        words: NDArray[np.uint32] | None = getattr(self._memory, "words", None)
        if words is None or len(words) < size:
            words = self._memory.words = np.empty(size, dtype=np.uint32)
        return words[:size]


def _unfit(states: NDArray[Any], blocks: NDArray[np.int64], n_blocks: int, out: NDArray[np.float32]) -> InputError:
    """Return the error of blocks that are not in the window, or of an array of another shape."""
    return InputError(
        "states of a window",
        "do not fit its tuples",
        expected=f"({n_blocks}, hidden), blocks from 0 to {n_blocks} and means of shape ({len(blocks)}, hidden)",
        got=f"{states.shape}, blocks {blocks.tolist()} and means of shape {out.shape}",
    )
