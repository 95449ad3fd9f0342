"""The keys that a store holds already, as sorted 64-bit hashes: 8 bytes a row, 16 while they are merged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import numpy.typing as npt

#: Number of hashes kept in a set before they are sorted into an array.
_RECENT = 8_192


class KnownKeys:
    """The keys of a store's rows. Equal hashes are only a suspicion: the keys themselves decide.

    ``read_keys`` yields the keys that were added, in any order; it is called for keys whose hash is known, which almost
    always are keys that were added.
    """

    def __init__(self, read_keys: Callable[[], Iterable[str]]) -> None:
        self._read_keys = read_keys
        self._recent: set[int] = set()
        # Each array is sorted, and longer than the next one.
        self._runs: list[npt.NDArray[np.int64]] = []

    def add(self, keys: Sequence[str]) -> None:
        """Add keys that :meth:`find_repeated` does not object to."""
        self._recent.update(map(hash_of, keys))
        if len(self._recent) >= _RECENT:
            run = np.sort(np.fromiter(self._recent, np.int64, len(self._recent)))
            self._recent.clear()
            while self._runs and len(self._runs[-1]) <= len(run):
                run = np.concatenate([self._runs.pop(), run])
                # A stable sort merges sorted halves in linear time.
                run.sort(kind="stable")
            self._runs.append(run)

    def find_repeated(self, keys: Sequence[str]) -> str | None:
        """Return the first key that was added before, or is given twice; None if all are new."""
        hashes = np.fromiter(map(hash_of, keys), np.int64, len(keys))
        known = np.fromiter((value in self._recent for value in hashes.tolist()), np.bool_, len(keys))
        for run in self._runs:
            known |= run[np.minimum(np.searchsorted(run, hashes), len(run) - 1)] == hashes
        suspected = {keys[at] for at in np.flatnonzero(known).tolist()}
        added = suspected.intersection(self._read_keys()) if suspected else suspected
        if not added and len(set(keys)) == len(keys):
            return None
        counts = Counter(keys)
        return next(key for key in keys if key in added or counts[key] > 1)


def hash_of(key: str) -> int:
    """Return Python's 64-bit hash of a text, which differs from process to process and is never stored."""
    return hash(key)
