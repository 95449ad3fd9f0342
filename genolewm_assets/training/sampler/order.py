"""Order of the visits of an epoch, visit by visit. Not here: how often strata are visited (``training``)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.training.sampler.tables import read_only

Integers = NDArray[np.int64]


def find_visits(
    seed: tuple[int, int], epoch: int, strata: tuple[Integers, Integers, Integers, NDArray[np.int32]], visits: Integers
) -> tuple[Integers, Integers]:
    """Return the rows of some visits of an epoch in random order, and how often each is visited in earlier rounds.

    Parameters
    ----------
    seed, epoch
        Low and high word of the seed; epoch, below 2**32.
    strata
        Where the visits of each stratum end in the epoch and how many it has in earlier ones, int64 of shape
        (n_strata,); where its rows begin and the end, int64 of shape (n_strata + 1,); rows by stratum, int32 of shape
        (n_windows,).
    visits
        Numbers of the visits in the epoch: int64, shape (n_visits,).

    Returns
    -------
    ndarray, ndarray
        int64, shape (n_visits,) each.
    """
    from genolewm_assets.training.sampler.entry_kernels import entries

    rows, again = np.empty_like(visits), np.empty_like(visits)
    words, numbers = np.array(seed, dtype=np.int64), map(read_only, strata)
    entries().write_visits(read_only(words), epoch, *numbers, read_only(visits), rows, again)
    return rows, again
