"""Windows in batches whose size follows the memory of the device; imports torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from genolewm_assets.encoders.network import device_error

#: Starts a forward pass over token ids and returns what waits for its result, one row per row of ids.
StartPass: TypeAlias = Callable[[NDArray[np.int64]], Callable[[], NDArray[Any]]]


class Batches:
    """Runs forward passes over batches of windows, and halves the batch whenever the device runs out of memory.

    Several threads may use it.

    Parameters
    ----------
    start
        Starts one pass; raises ``torch.OutOfMemoryError`` if the memory is too small for it.
    windows
        Windows of the first pass.
    where
        Start of the error message.
    """

    def __init__(self, start: StartPass, windows: int, where: str) -> None:
        self._start, self.windows, self._where = start, windows, where

    def run(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """Start the passes over all windows, wait for them, and return their results in order.

        Parameters
        ----------
        ids
            int64, shape (n_windows, n_tokens), at least one window.

        Raises
        ------
        DeviceError
            If the memory is too small for one window.
        """
        started, first = list[Callable[[], NDArray[Any]]](), 0
        while first < len(ids):
            windows = self.windows
            try:
                started.append(self._start(ids[first : first + windows]))
            except torch.OutOfMemoryError as err:
                self._lower(windows, err)
            else:
                first += windows
        return np.concatenate([wait() for wait in started])

    def _lower(self, failed: int, err: torch.OutOfMemoryError) -> None:
        """Halve the batch, for good, after one of ``failed`` windows did not fit."""
        if failed == 1:
            raise device_error(self._where, "the accelerator's memory is too small for one window", err) from err
        # Another thread may have lowered it meanwhile.
        self.windows = min(self.windows, failed // 2)
