"""A set of keys in an array tells what a Python set tells, also while it grows."""

from __future__ import annotations

import numpy as np

from genolewm_assets.windows.corpus.keys import KeySet


def test_it_tells_which_contents_came_before() -> None:
    drawn = np.random.default_rng(1).integers(0, 5_000, 9_000).tolist()
    keys, seen = KeySet(), set[int]()
    for number in drawn:
        assert keys.add(str(number).encode()) == (number in seen)
        seen.add(number)
    # The array grows with them, and is at least a third full.
    assert keys._keys.size <= 3 * len(seen)
