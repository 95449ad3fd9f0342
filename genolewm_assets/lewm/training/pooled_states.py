"""States of unedited windows, pooled over the blocks of their tuples: from the caches, or from a live encoder.

Not here: how blocks are averaged (``lewm.states``), proof that an encoder is that of the caches (``live_states``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.lewm.edits import SplitWindows
from genolewm_assets.lewm.sampler import EditBatch
from genolewm_assets.lewm.states import TuplePooler, block_count
from genolewm_assets.lewm.training.live_states import LiveEncoder

Integers = NDArray[np.int64]

#: Name of the array in a state cache.
_STATES = "states"


class StateReader(Protocol):
    """Interface of a reader of a state cache, such as :class:`~genolewm_assets.store.arrays.ArrayStoreReader`."""

    def checked(self, indices: ArrayLike, array: str | None = None) -> NDArray[Any]:
        """Return the states of all rows, after a check of some: floating, shape (n_rows, n_blocks, hidden).

        Blocks past a row's end are NaN.
        """
        ...


class WindowStates:
    """Block states of the windows of a split.

    Parameters
    ----------
    windows
        Windows of the split; they name the caches and rows of their states.
    readers
        Reader of every state cache by key.
    encoder
        Encoder of the windows that no reader holds; None: such a window is an error.
    """

    def __init__(
        self, windows: SplitWindows, readers: Mapping[str, StateReader], encoder: LiveEncoder | None = None
    ) -> None:
        self._windows, self._readers, self._encoder = windows, readers, encoder
        self._pooler = TuplePooler()

    def pool(
        self, rows: Integers, n_tokens: Integers, edits: EditBatch, block_tokens: int
    ) -> tuple[NDArray[np.float32], int]:
        """Pool the states of some windows over the blocks of their tuples.

        Parameters
        ----------
        rows, n_tokens
            int64, shape (n_windows,): rows and DNA tokens of the windows that ``edits`` numbers.
        edits
            Edits of the n tuples.
        block_tokens
            DNA tokens per block.

        Returns
        -------
        ndarray
            float32, shape (n, hidden).
        int
            Number of windows whose states were encoded.

        Raises
        ------
        CorruptResourceError
            If a window's states are missing, or their blocks do not match the window.
        """
        states, at, encoded = self._find(rows)
        blocks = np.stack((edits.block_start, edits.block_stop), axis=1)
        ends = np.searchsorted(edits.window, np.arange(len(rows) + 1))
        pooled = np.empty((len(edits), states[0].shape[-1] if states else 0), dtype=np.float32)
        for number, (own, row, size) in enumerate(zip(states, at, n_tokens.tolist(), strict=True)):
            n_blocks, (first, end) = block_count(size, block_tokens), ends[number : number + 2]
            of_window = own[row]
            fits = len(of_window) >= n_blocks and bool(np.isnan(of_window[n_blocks:]).all())
            if not fits or not self._pooler.pool(
                of_window[:n_blocks], blocks[first:end], size, block_tokens, pooled[first:end]
            ):
                raise self._unfit(int(rows[number]), of_window, n_blocks)
        return pooled, encoded

    def _find(self, rows: Integers) -> tuple[list[NDArray[Any]], list[int], int]:
        """Return, for each window, states that hold it and its row there, and the number of windows encoded."""
        keys, code, cache_row = self._windows.cached(rows)
        found: dict[int, tuple[NDArray[Any], int]] = {}
        missing: list[int] = []
        for number in np.unique(code).tolist():
            ours, reader = np.flatnonzero(code == number), self._readers.get(keys[number] or "")
            if reader is None:
                missing.extend(ours.tolist())
                continue
            states = reader.checked(cache_row[ours], _STATES)
            found.update((window, (states, int(cache_row[window]))) for window in ours.tolist())
        if missing:
            states = self._encode(rows[missing])
            found.update((window, (states, number)) for number, window in enumerate(missing))
        ordered = [found[window] for window in range(len(rows))]
        return [states for states, _ in ordered], [row for _, row in ordered], len(missing)

    def _encode(self, rows: Integers) -> NDArray[Any]:
        """Encode windows that no cache holds: floating, shape (n_windows, n_blocks, hidden)."""
        if self._encoder is not None:
            return self._encoder.encode_windows([self._windows.record(row).sequence for row in rows.tolist()])
        record = self._windows.record(int(rows[0]))
        raise CorruptResourceError(
            f"window {record.window_id}",
            "its states are in no cache of the package",
            expected=f"one of {sorted(self._readers)}",
            got=repr(record.cache_key),
            remedy="Build the package with caches for all of its windows, give an encoder, or open it without states",
        )

    def _unfit(self, row: int, states: NDArray[Any], n_blocks: int) -> CorruptResourceError:
        """Return the error of a window of which not exactly the first ``n_blocks`` blocks are finite, the others NaN.

        With another block size than the cache's, the wrong tokens would be pooled.
        """
        record = self._windows.record(row)
        return CorruptResourceError(
            f"window {record.window_id} (row {record.cache_row} of cache {record.cache_key})",
            "cached states are not this window's",
            expected=f"{n_blocks} blocks of finite numbers",
            got=f"{int(np.isfinite(states).all(axis=-1).sum())} of {len(states)}",
            remedy="Pool with the block size of the cache, or rebuild the cache",
        )
