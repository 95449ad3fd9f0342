from __future__ import annotations

import numpy as np
import pytest

from genolewm_assets.sample.genome.draws import Draws


def test_stream_is_pinned() -> None:
    # Every file of the sample hangs on these numbers.
    assert Draws(17, 2).below(1_000_000, 5).tolist() == [977744, 483782, 561581, 888340, 467951]


def test_streams_are_independent_of_each_other_and_of_chunking() -> None:
    one, two = Draws(1), Draws(1)
    assert np.array_equal(one.uniform(10), np.concatenate([two.uniform(4), two.uniform(6)]))
    assert not np.array_equal(Draws(1).uniform(10), Draws(2).uniform(10))


def test_uniform_stays_below_one() -> None:
    u = Draws(3).uniform(200_000)
    assert 0.0 <= u.min() < 1e-4
    assert 1 - 1e-4 < u.max() < 1.0
    assert abs(u.mean() - 0.5) < 0.005


@pytest.mark.parametrize(("low", "high"), [(0, 1), (5, 6), (-3, 4), (10, 1_000)])
def test_between_covers_its_range(low: int, high: int) -> None:
    drawn = Draws(4).between(low, high, 20_000)
    assert (drawn.min(), drawn.max()) == (low, high - 1)


def test_choose_follows_the_weights_and_never_takes_a_zero() -> None:
    counts = np.bincount(Draws(5).choose([1, 0, 3], 40_000), minlength=3)
    assert counts[1] == 0
    assert abs(counts[2] / counts[0] - 3) < 0.2


def test_normal_has_unit_variance() -> None:
    z = Draws(6).normal(100_000)
    assert abs(z.mean()) < 0.02
    assert abs(z.std() - 1) < 0.02


def test_sample_is_distinct_and_sorted_and_never_more_than_there_are() -> None:
    drawn = Draws(7).sample(100, 30).tolist()
    assert drawn == sorted(set(drawn))
    assert len(drawn) == 30
    assert Draws(7).sample(3, 10).tolist() == [0, 1, 2]
