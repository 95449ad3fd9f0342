"""Periodic positional encoding of a circle of L positions: position L has the features of position 0."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from genolewm_assets.errors import ConfigurationError


def circular_harmonics(length: int, n_harmonics: int) -> NDArray[np.int64]:
    """Return the periods per turn of each feature, distinct integers from 1, as evenly spaced as possible in ratio.

    ConfigurationError is raised unless ``n_harmonics`` is 1 to ``length // 2``: a higher harmonic equals a lower one at
    all integer positions.
    """
    highest = length // 2
    if not 1 <= n_harmonics <= highest:
        problem, expected = "number of harmonics out of range", f"1 to {highest}"
        raise ConfigurationError("circular positions", problem, expected=expected, got=f"{n_harmonics}")
    wanted = np.rint(np.geomspace(1, highest, n_harmonics)).astype(np.int64)
    # The lowest values round to equal integers; each duplicate moves up to the next free integer.
    steps = np.arange(n_harmonics)
    return np.minimum(np.maximum.accumulate(wanted - steps) + steps, highest - (n_harmonics - 1) + steps)


def encode_circular_positions(positions: ArrayLike, length: int, n_features: int) -> NDArray[np.float32]:
    """Encode integer positions on a circle as sines and cosines: float32, shape (..., n_features).

    Feature 2i is ``sin(2 pi h[i] p / length)``, feature 2i + 1 the cosine, with ``h = circular_harmonics(length,
    n_features // 2)``, all integers, so that features are periodic in ``length``. ConfigurationError is raised if
    positions are not integers, or ``n_features`` is odd or out of range.
    """
    places = np.asarray(positions)
    if places.dtype.kind not in "iu" or n_features % 2:
        expected, got = "integers, and an even number of features", f"{places.dtype}, {n_features}"
        raise ConfigurationError("circular positions", "cannot be encoded", expected=expected, got=got)
    harmonics = circular_harmonics(length, n_features // 2)
    # Reduced modulo the length in integers, so that equal positions give bit-identical features after any turns.
    turns = places[..., np.newaxis].astype(np.int64) % length * harmonics % length
    angles = turns * (2 * np.pi / length)
    features = np.stack((np.sin(angles), np.cos(angles)), axis=-1)
    return features.reshape(*places.shape, n_features).astype(np.float32)
