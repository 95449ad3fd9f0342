"""Which training windows were drawn, by 64 bits of their ids."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from genolewm_assets.audit.reading.package_files import TRAIN, PackageFiles

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


class DrawnWindows:
    """The windows that are to be drawn, sorted by key, and which of them were; those with one id count as one."""

    def __init__(self, keys: Keys) -> None:
        self._keys = np.unique(keys)
        self._drawn = np.zeros(len(self._keys), np.bool_)
        self._strangers = np.empty(0, np.uint64)
        #: Number of windows that were not drawn.
        self.missing = len(self._keys)

    @classmethod
    def of_package(cls, files: PackageFiles) -> Self:
        """Read the windows of training."""
        ids = (batch["window_id"].to_numpy(zero_copy_only=False) for batch in files.windows(TRAIN, ("window_id",)))
        return cls(np.concatenate([np.empty(0, np.uint64), *map(id_keys, ids)]))

    def note(self, window_ids: Any) -> None:
        """Note windows that were drawn."""
        keys = np.unique(id_keys(window_ids))
        at = np.searchsorted(self._keys, keys)
        is_known = np.isin(keys, self._keys[at[at < len(self._keys)]])
        new = at[is_known][~self._drawn[at[is_known]]]
        self._drawn[new] = True
        self.missing -= len(new)
        if not is_known.all():
            self._strangers = np.union1d(self._strangers, keys[~is_known])

    @property
    def strangers(self) -> int:
        """Number of windows that were drawn and are not to be drawn."""
        return len(self._strangers)
