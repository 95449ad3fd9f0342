"""Tiling of a genome's tokens with windows, and dataset items made from windows: arrays of equal width."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import WindowError
from genolewm_assets.mito.tokens import CLS_ID, PAD_ID, TokenRow

WINDOW_TOKENS, STRIDE_TOKENS = 512, 256

#: Arrays by name, as in :class:`~genolewm_assets.mito.tokens.tokenize.Tokens`, and the entries that a dataset adds.
Item: TypeAlias = dict[str, Any]

_Value = TypeVar("_Value", bound=np.generic)


@dataclass(frozen=True, slots=True)
class WindowTiling:
    """Size, step and topology of the windows of a genome.

    >>> WindowTiling().count(16_569)
    65
    """

    window_tokens: int = WINDOW_TOKENS
    stride_tokens: int = STRIDE_TOKENS
    circular: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.stride_tokens <= self.window_tokens:
            expected, got = "1 <= stride_tokens <= window_tokens", f"{self.stride_tokens} and {self.window_tokens}"
            raise WindowError("windows of tokens", "size or step out of range", expected=expected, got=got)

    def count(self, n_tokens: int) -> int:
        """Return the number of windows of a genome, at least one; WindowError if it has no token."""
        if n_tokens < 1:
            raise WindowError("windows of tokens", "the genome has no token", expected="at least 1", got=f"{n_tokens}")
        if n_tokens < self.window_tokens:
            return 1
        overlap = 0 if self.circular else self.window_tokens - self.stride_tokens
        return -(-(n_tokens - overlap) // self.stride_tokens)

    def cut(self, values: NDArray[_Value], first: int) -> NDArray[_Value]:
        """Return the values of one window of a genome from token ``first`` on; shorter if the window needs padding."""
        piece = values[first : first + self.window_tokens]
        if len(piece) == self.window_tokens or not self.circular or len(values) < self.window_tokens:
            return piece
        return np.concatenate((piece, values[: self.window_tokens - len(piece)]))


class WindowItems:
    """Makes the dataset item of a window; genomes have up to ``longest`` tokens. ``add_cls``: begin with ``[CLS]``."""

    def __init__(
        self, tiling: WindowTiling, *, add_cls: bool, longest: int, id_dtype: type[np.int16 | np.int32]
    ) -> None:
        self.lead = int(add_cls)
        self._tiling, self._size = tiling, tiling.window_tokens
        self._width = self._size + self.lead
        self._id_dtype = id_dtype
        self._whole = np.ones(self._width, dtype=np.int8)
        self._no_het = np.zeros(self._width, dtype=np.float32)
        # Begins at -1, because [CLS] takes the element before the first token.
        self._own_positions = np.arange(-1, longest, dtype=np.int32)
        # Position arrays of complete windows by first token, for genomes without reference coordinates. Copying one is
        # faster than slicing and correcting.
        whole = range(0, longest - self._size + 1, tiling.stride_tokens)
        self._own_windows = {first: self._own_window(first) for first in whole}

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the constructor's arguments, which are smaller than the precomputed arrays."""
        make = partial(
            WindowItems, add_cls=self.lead > 0, longest=len(self._own_positions) - 1, id_dtype=self._id_dtype
        )
        return make, (self._tiling,)

    def _own_window(self, first: int) -> NDArray[np.int32]:
        """Return the positions of a complete window whose tokens are numbered within the genome."""
        positions = self._own_positions[first - self.lead + 1 : first + self._size + 1].copy()
        positions[0] = first
        return positions

    def item(self, row: TokenRow, first: int, number: int) -> Item:
        """Return the window of a genome that begins at token ``first``, as item ``number`` of a ``MtDNADataset``."""
        ids, het, positions = row
        lead = self.lead
        begin, end = first - lead, first + self._size
        attention_mask = self._whole.copy()
        if begin < 0 or end > len(ids):
            # The window begins at token 0, wraps round the origin, or is padded.
            cut, own = self._tiling.cut, self._own_positions[1 : len(ids) + 1] if positions is None else positions
            piece = cut(ids, first)
            used = slice(lead, lead + len(piece))
            input_ids = np.full(self._width, PAD_ID, dtype=self._id_dtype)
            position_ids = np.zeros(self._width, dtype=np.int32)
            het_values = self._no_het.copy()
            input_ids[used], position_ids[used] = piece, cut(own, first)
            if het is not None:
                het_values[used] = cut(het, first)
            attention_mask[used.stop :] = 0
            if lead:
                position_ids[0] = position_ids[1]
        else:
            # Each array is copied once; [CLS] overwrites the token before the window.
            input_ids = ids[begin:end].copy()
            if positions is None:
                known = self._own_windows.get(first)
                position_ids = self._own_window(first) if known is None else known.copy()
            else:
                position_ids = positions[begin:end].copy()
                position_ids[0] = positions[first]
            het_values = self._no_het.copy() if het is None else het[begin:end].copy()
        if lead:
            input_ids[0], het_values[0] = CLS_ID, 0
        return {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "position_ids": position_ids,
            "het_values": het_values,
            "window_index": number,
        }
