"""Which training windows were drawn, by 64 bits of their ids, and whether that is enough."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from genolewm_assets.audit.reading.package_files import TRAIN, PackageFiles

#: Tuples that are drawn, if need be, until every window has been drawn: so many for each asked for, and at least.
MOST_FOR_EACH, MOST_FOR_WINDOWS = 4, 100_000
#: Windows of an origin from which on not all of them have to be drawn, and the share that has to be.
MANY_WINDOWS, LEAST_DRAWN = 10_000, 0.99
#: Origins that are told apart; further ones count as one.
_ORIGINS = 256
#: Tuples of each window, on average, after which no more is drawn.
MOST_OF_WINDOW = 64

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

    def __init__(self, keys: Keys, origins: npt.NDArray[np.uint8]) -> None:
        self._keys, first = np.unique(keys, return_index=True)
        self._origins, self._drawn = origins[first], np.zeros(len(first), np.bool_)
        #: Windows of each origin, and those that were not drawn yet.
        self._n = np.bincount(self._origins, minlength=1)
        self._undrawn = self._n.copy()
        self._strangers = np.empty(0, np.uint64)

    @classmethod
    def of_package(cls, files: PackageFiles) -> Self:
        """Read the windows of training."""
        keys, numbers, names = [np.empty(0, np.uint64)], [np.empty(0, np.uint8)], dict[str, int]()
        for batch in files.windows(TRAIN, ("window_id", "origin")):
            coded = batch["origin"].dictionary_encode()
            of_origin = [names.setdefault(name, min(len(names), _ORIGINS - 1)) for name in coded.dictionary.to_pylist()]
            keys.append(id_keys(batch["window_id"].to_numpy(zero_copy_only=False)))
            numbers.append(np.array(of_origin, np.uint8)[coded.indices.to_numpy()])
        return cls(np.concatenate(keys), np.concatenate(numbers))

    def note(self, window_ids: Any) -> None:
        """Note windows that were drawn."""
        keys = np.unique(id_keys(window_ids))
        at = np.searchsorted(self._keys, keys)
        is_known = np.isin(keys, self._keys[at[at < len(self._keys)]])
        new = at[is_known][~self._drawn[at[is_known]]]
        self._drawn[new] = True
        self._undrawn -= np.bincount(self._origins[new], minlength=len(self._n))
        if not is_known.all():
            self._strangers = np.union1d(self._strangers, keys[~is_known])

    @property
    def strangers(self) -> int:
        """Number of windows that were drawn and are not to be drawn."""
        return len(self._strangers)

    @property
    def missing(self) -> int:
        """Number of windows that were not drawn; 0 if each was, or was with a probability of 99 %."""
        may_lack = np.where(self._n > MANY_WINDOWS, (1 - LEAST_DRAWN) * self._n, 0)
        return int(self._undrawn.sum()) if (self._undrawn > may_lack).any() else 0

    def are_enough(self, tuples: int, least_tuples: int) -> bool:
        """Tell whether no more tuples are to be drawn."""
        most = max(MOST_FOR_EACH * least_tuples, MOST_FOR_WINDOWS, MOST_OF_WINDOW * len(self._keys))
        return tuples >= least_tuples and (not self.missing or tuples >= most)
