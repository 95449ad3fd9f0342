"""Windows of a genome's tokens: where they start, which tokens they hold, how often each token is seen."""

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
    """How windows lie on a genome.

    Parameters
    ----------
    window_tokens
        Tokens per window.
    stride_tokens
        Step between the first tokens of neighbouring windows, at most ``window_tokens``.
    circular
        Windows begin at every multiple of the step, and the last ones go on at the origin. Else the last window is
        the first that holds the last token, and is padded.

    Raises
    ------
    WindowError
        If a number is impossible.

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
                "impossible size or step",
                expected="1 <= stride_tokens <= window_tokens",
                got=f"{self.stride_tokens} and {self.window_tokens}",
            )

    def count(self, n_tokens: int) -> int:
        """Return how many windows a genome has; one that is shorter than a window has one, which is padded.

        Raises
        ------
        WindowError
            If it has no token.
        """
        if n_tokens < 1:
            raise WindowError("windows of tokens", "the genome has no token", expected="at least 1", got=f"{n_tokens}")
        if n_tokens < self.window_tokens:
            return 1
        behind = 0 if self.circular else self.window_tokens - self.stride_tokens
        return -(-(n_tokens - behind) // self.stride_tokens)

    def coverage(self, n_tokens: int) -> NDArray[np.int32]:
        """Return in how many windows each token stands: int32, shape (n_tokens,)."""
        seen = np.zeros(n_tokens, dtype=np.int32)
        tokens = np.arange(n_tokens)
        for window in range(self.count(n_tokens)):
            first = window * self.stride_tokens
            seen[self.cut(tokens, first)] += 1
        return seen

    def cut(self, values: NDArray[_Value], first: int) -> NDArray[_Value]:
        """Return one window of a genome's values.

        Parameters
        ----------
        values
            Shape (n_tokens,).
        first
            Token of the genome at which the window begins.

        Returns
        -------
        ndarray
            Shape (window_tokens,), or less where the window is to be padded; a view of ``values`` unless it wraps.
        """
        piece = values[first : first + self.window_tokens]
        if len(piece) == self.window_tokens or not self.circular or len(values) < self.window_tokens:
            return piece
        return np.concatenate((piece, values[: self.window_tokens - len(piece)]))
