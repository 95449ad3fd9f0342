"""Positions on a circle as features that have no seam: base L has the features of base 0, at every frequency."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from genolewm_assets.errors import ConfigurationError


def circular_harmonics(length: int, n_harmonics: int) -> NDArray[np.int64]:
    """Return how often each feature goes round the circle: distinct whole numbers, as evenly spaced in ratio as can be.

    Parameters
    ----------
    length
        Positions on the circle.
    n_harmonics
        How many, up to ``length // 2``: beyond that, two positions a step apart could not be told apart.

    Returns
    -------
    ndarray
        int64, shape (n_harmonics,), ascending from 1.

    Raises
    ------
    ConfigurationError
        If the circle has no room for so many.
    """
    highest = length // 2
    if not 1 <= n_harmonics <= highest:
        raise ConfigurationError(
            "circular positions", "impossible number of harmonics", expected=f"1 to {highest}", got=f"{n_harmonics}"
        )
    wanted = np.rint(np.geomspace(1, highest, n_harmonics)).astype(np.int64)
    # The first ratios are under 2 and round to the same number: each takes the next that is free.
    steps = np.arange(n_harmonics)
    return np.minimum(np.maximum.accumulate(wanted - steps) + steps, highest - (n_harmonics - 1) + steps)


def encode_circular_positions(positions: ArrayLike, length: int, n_features: int) -> NDArray[np.float32]:
    """Return the sines and cosines of positions on a circle.

    Parameters
    ----------
    positions
        Integers of any shape; those that differ by a multiple of ``length`` are the same place.
    length
        Positions on the circle.
    n_features
        Even; half are sines, half cosines of the same harmonics.

    Returns
    -------
    ndarray
        float32, shape (..., n_features) for positions of shape (...): feature 2i is ``sin(2 pi h[i] p / length)``,
        feature 2i + 1 the cosine, with ``h = circular_harmonics(length, n_features // 2)``.

    Raises
    ------
    ConfigurationError
        If positions are no integers, or ``n_features`` is odd, or more than the circle has room for.

    Notes
    -----
    Every harmonic is a whole number, so every feature is periodic in ``length``. Sinusoids with the frequencies of a
    linear sequence are not: the last base and the first would be as far apart as any two.
    """
    places = np.asarray(positions)
    if places.dtype.kind not in "iu" or n_features % 2:
        raise ConfigurationError(
            "circular positions",
            "cannot be encoded",
            expected="integers, and an even number of features",
            got=f"{places.dtype}, {n_features}",
        )
    harmonics = circular_harmonics(length, n_features // 2)
    # Turns are reduced in integers, so that the same place gives the same bits however often one went round.
    turns = places[..., np.newaxis].astype(np.int64) % length * harmonics % length
    angles = turns * (2 * np.pi / length)
    features = np.stack((np.sin(angles), np.cos(angles)), axis=-1)
    return features.reshape(*places.shape, n_features).astype(np.float32)
