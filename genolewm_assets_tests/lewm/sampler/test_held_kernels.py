"""The rows of a window's alleles are found wherever they lie."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from genolewm_assets_tests.late import Late

held_kernels = Late("genolewm_assets.lewm.sampler.held_kernels")


def alleles_at(before, pos, behind):
    """Return alleles of three contigs, of which the second has the given positions."""
    bounds = np.cumsum([0, len(before), len(pos), len(behind)])
    rows = np.stack((bounds[:-1], bounds[1:]), axis=1).astype(np.int64)
    every = np.array([*before, *pos, *behind], dtype=np.int64)
    return held_kernels.Alleles(every, np.zeros(2 * len(every) + 1, np.uint32), np.zeros(0, np.uint8), rows)


@given(
    pos=st.lists(st.integers(1, 40) | st.integers(1, 250_000_000), max_size=300).map(sorted),
    low=st.integers(-50, 250_000_100) | st.integers(-5, 45),
    size=st.integers(0, 20_000),
)
@settings(max_examples=300, deadline=None)
def test_rows_between_two_positions(pos, low, size):
    alleles = alleles_at([7, 9], pos, [1, 10, 20])
    found = held_kernels.rows_between(alleles, 1, low, low + size)
    assert found == tuple(2 + np.searchsorted(pos, [low, low + size]))


@pytest.mark.parametrize("spread", ["even", "clustered", "equal", "doubling"])
def test_rows_of_many_alleles(spread):
    rng = np.random.default_rng(5)
    pos = {
        "even": np.sort(rng.integers(1, 248_000_000, 50_000)),
        "clustered": np.sort(rng.choice(rng.integers(1, 248_000_000, 20), 50_000) + rng.integers(0, 900, 50_000)),
        "equal": np.full(50_000, 1_000),
        "doubling": np.sort(np.exp(rng.random(50_000) * 19)).astype(np.int64) + 1,
    }[spread]
    alleles = alleles_at([5], pos, [3, 4])
    for low in [*rng.choice(pos, 300), *rng.integers(-10, 250_000_000, 300), 0, 1, int(pos[-1]), int(pos[-1]) + 1]:
        expected = tuple(1 + np.searchsorted(pos, [low, low + 12_800]))
        assert held_kernels.rows_between(alleles, 1, int(low), int(low) + 12_800) == expected


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_positions_of_a_damaged_file_lead_to_rows_of_the_contig(data):
    """Numbers in any order, as large as there are."""
    pos = data.draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=200))
    low = data.draw(st.integers(1, 250_000_000))
    first, end = held_kernels.rows_between(alleles_at([1], pos, [2]), 1, low, low + 100)
    assert 1 <= first <= 1 + len(pos)
    assert 1 <= end <= 1 + len(pos)
