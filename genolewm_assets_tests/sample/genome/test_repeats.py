from __future__ import annotations

import numpy as np

from genolewm_assets.sample.genome.draws import Draws
from genolewm_assets.sample.genome.repeats import disperse_repeats, insert_satellite, insert_tandem_repeats, substitute


def _blank(n: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.full(n, 7, dtype=np.uint8)


def test_substitution_never_keeps_the_base_it_replaces() -> None:
    codes = Draws(1).below(4, 50_000).astype(np.uint8)
    assert not np.any(substitute(codes, np.ones(codes.size), Draws(2)) == codes)
    assert np.array_equal(substitute(codes, np.zeros(codes.size), Draws(2)), codes)
    assert abs(np.mean(substitute(codes, np.full(codes.size, 0.1), Draws(3)) != codes) - 0.1) < 0.01


def test_dispersed_copies_are_written_where_the_mask_says_and_resemble_each_other() -> None:
    codes = _blank(400_000)
    mask = disperse_repeats(codes, Draws(4), Draws(0, 4))
    assert np.array_equal(codes != 7, mask)
    assert codes[mask].max() < 4
    # Copies share 16-mers; that many in random sequence of this length would be far fewer.
    text = "".join("ACGTNNNN"[c] for c in codes.tolist())
    words = [text[i : i + 16] for i in range(0, len(text) - 16) if "N" not in text[i : i + 16]]
    assert len(set(words)) < 0.9 * len(words)


def test_tandem_arrays_are_periodic() -> None:
    codes = _blank(200_000)
    mask = insert_tandem_repeats(codes, Draws(5))
    assert np.array_equal(codes != 7, mask)
    both = [(mask[k:] & mask[:-k]) for k in (1, 2, 3, 4, 5, 6)]
    equal = np.zeros(codes.size, dtype=bool)
    for k, pair in enumerate(both, start=1):
        equal[k:] |= pair & (codes[k:] == codes[:-k])
    assert equal[mask].mean() > 0.9


def test_satellite_fills_its_place_with_higher_order_repeats() -> None:
    codes = _blank(30_000)
    mask = insert_satellite(codes, (1_000, 29_000), Draws(6))
    assert np.array_equal(np.flatnonzero(mask), np.arange(1_000, 29_000))
    array, block = codes[1_000:29_000], 12 * 171
    assert np.mean(array[block:] == array[:-block]) > 0.94
    assert 0.5 < np.mean(array[171:] == array[:-171]) < 0.8
