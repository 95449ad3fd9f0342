"""Which training windows were drawn, by 64 bits of their ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from genolewm_assets.audit.reading.package_files import PackageFiles

_ID_BYTES = 32
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
Keys = npt.NDArray[np.uint64]


def id_keys(ids: Any) -> Keys:
    """Return 64 bits of the first 32 bytes of window ids: uint64, shape (n,)."""
    words = np.ascontiguousarray(np.asarray(ids).astype(f"S{_ID_BYTES}")).view(np.uint64).reshape(-1, 4)
    keys = np.zeros(len(words), dtype=np.uint64)
    for column in range(words.shape[1]):
        keys = (keys ^ (keys >> np.uint64(31)) ^ words[:, column]) * _FACTOR
    return keys ^ (keys >> np.uint64(29))


def _keys_of(windows: pa.RecordBatch) -> Keys:
    return id_keys(windows["window_id"].to_numpy(zero_copy_only=False))


class DrawnWindows:
    """The windows that may be drawn, sorted by key, and which of them were; those with one id count as one.

    ``keys``: those of the windows of each piece, or of each file of a package that has no pieces.
    """

    def __init__(self, keys: Iterable[Keys]) -> None:
        pieces = [np.empty(0, np.uint64), *keys]
        of = np.repeat(np.arange(len(pieces), dtype=np.int32), [len(piece) for piece in pieces])
        self._keys, firsts = np.unique(np.concatenate(pieces), return_index=True)
        self._piece = of[firsts]
        self._drawn = np.zeros(len(self._keys), np.bool_)
        self._undrawn = set(np.unique(self._piece).tolist())
        self._strangers = np.empty(0, np.uint64)

    @classmethod
    def of_package(cls, files: PackageFiles) -> Self:
        """Read the windows of training."""
        pieces = files.train_pieces(("window_id",))
        return cls(np.concatenate([np.empty(0, np.uint64), *map(_keys_of, piece)]) for piece in pieces)

    def note(self, window_ids: Any) -> None:
        """Note windows that were drawn."""
        keys = np.unique(id_keys(window_ids))
        at = np.searchsorted(self._keys, keys)
        is_known = np.isin(keys, self._keys[at[at < len(self._keys)]])
        self._drawn[at[is_known]] = True
        if self._undrawn:
            self._undrawn -= set(self._piece[at[is_known]].tolist())
        if not is_known.all():
            self._strangers = np.union1d(self._strangers, keys[~is_known])

    @property
    def n_windows(self) -> int:
        """Number of windows that were drawn."""
        return int(np.count_nonzero(self._drawn))

    @property
    def pieces_left(self) -> int:
        """Number of pieces of which no window was drawn."""
        return len(self._undrawn)

    @property
    def strangers(self) -> int:
        """Number of windows that were drawn and are in no file of training windows."""
        return len(self._strangers)
