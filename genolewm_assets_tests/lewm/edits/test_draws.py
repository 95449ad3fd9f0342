from __future__ import annotations

import hashlib

import numpy as np
import pytest

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.lewm.edits.draws import DrawKey


def test_draws_are_blake2b_of_the_key_and_a_counter():
    root = hashlib.blake2b(b"\x05\x00\x00\x00int:7\x05\x00\x00\x00str:a", key=b"", digest_size=32).digest()
    words = b"".join(hashlib.blake2b(n.to_bytes(8, "little"), key=root).digest() for n in range(2))
    draws = DrawKey.of(7, "a").draws()
    assert [draws.word() for _ in range(16)] == np.frombuffer(words, "<u8").tolist()


def test_keys_do_not_run_into_each_other():
    keys = [("ab",), ("a", "b"), ("a", "", "b"), (1,), ("1",), (12,), (1, 2), ()]
    assert len({DrawKey.of(*parts).digest for parts in keys}) == len(keys)
    assert DrawKey.of(1, "x") == DrawKey.of(1, "x")
    assert DrawKey.of(1).child("x") != DrawKey.of("x").child(1)


def test_numbers_below_are_uniform():
    draws = DrawKey.of("uniform").draws()
    counts = np.bincount([draws.below(7) for _ in range(14_000)], minlength=7)
    # Chi-squared with 6 degrees of freedom: 22.5 is exceeded once in 1,000.
    assert ((counts - 2_000) ** 2 / 2_000).sum() < 22.5
    mean = np.mean([draws.uniform() for _ in range(4_000)])
    assert abs(mean - 0.5) < 4 / np.sqrt(12 * 4_000)


def test_below_needs_something_to_choose_from():
    with pytest.raises(ConfigurationError, match="nothing to choose from"):
        DrawKey.of().draws().below(0)


@pytest.mark.parametrize("n", [0, 1, 2, 1_000])
def test_permutations_hold_every_number_once(n):
    assert sorted(DrawKey.of("p", n).permutation(n).tolist()) == list(range(n))
    assert sorted(DrawKey.of("p", n).draws().permuted(n)) == list(range(n))


def test_permutations_are_even():
    firsts = np.bincount([DrawKey.of("e", i).permutation(6)[0] for i in range(6_000)], minlength=6)
    lazy = np.bincount([next(DrawKey.of("l", i).draws().permuted(6)) for i in range(6_000)], minlength=6)
    # Chi-squared with 5 degrees of freedom: 20.5 is exceeded once in 1,000.
    for counts in (firsts, lazy):
        assert ((counts - 1_000) ** 2 / 1_000).sum() < 20.5


def test_a_permutation_is_the_same_on_every_machine():
    assert DrawKey.of("golden").permutation(8).tolist() == [7, 6, 2, 1, 0, 5, 3, 4]
