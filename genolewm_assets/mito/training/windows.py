"""Tiling of a genome's tokens with windows: starts, tokens of a window, and coverage of each token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import WindowError

WINDOW_TOKENS, STRIDE_TOKENS = 512, 256

_Value = TypeVar("_Value", bound=np.generic)


@dataclass(frozen=True, slots=True)
class WindowTiling:
    """Size, step and topology of the windows of a genome.

    Examples
    --------
    >>> WindowTiling().count(16_569)
    65
    """

    window_tokens: int = WINDOW_TOKENS
    stride_tokens: int = STRIDE_TOKENS
    circular: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.stride_tokens <= self.window_tokens:
            raise WindowError(
                "windows of tokens",
                "size or step out of range",
                expected="1 <= stride_tokens <= window_tokens",
                got=f"{self.stride_tokens} and {self.window_tokens}",
            )

    def count(self, n_tokens: int) -> int:
        """Return the number of windows of a genome, at least one; WindowError if it has no token."""
        if n_tokens < 1:
            raise WindowError("windows of tokens", "the genome has no token", expected="at least 1", got=f"{n_tokens}")
        if n_tokens < self.window_tokens:
            return 1
        overlap = 0 if self.circular else self.window_tokens - self.stride_tokens
        return -(-(n_tokens - overlap) // self.stride_tokens)

    def coverage(self, n_tokens: int) -> NDArray[np.int32]:
        """Return the number of windows that contain each token: int32, shape (n_tokens,)."""
        seen = np.zeros(n_tokens, dtype=np.int32)
        tokens = np.arange(n_tokens)
        for window in range(self.count(n_tokens)):
            first = window * self.stride_tokens
            seen[self.cut(tokens, first)] += 1
        return seen

    def cut(self, values: NDArray[_Value], first: int) -> NDArray[_Value]:
        """Return the values of one window of a genome from token ``first`` on; shorter if the window needs padding.

        A view of ``values``, or a copy if the window wraps round the origin.
        """
        piece = values[first : first + self.window_tokens]
        if len(piece) == self.window_tokens or not self.circular or len(values) < self.window_tokens:
            return piece
        return np.concatenate((piece, values[: self.window_tokens - len(piece)]))
