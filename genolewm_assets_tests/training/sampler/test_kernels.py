"""Compiled keyed random numbers against plain ones, and these against a referee of Philox4x32-10.

Entries are cached on disk by the text of all kernels.

The rows of a window's alleles are found wherever they lie.
"""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from genolewm_assets.edits.draws import DrawKey, epoch_key, philox, seed_words
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.training.sampler import draw_kernels as kernels
from genolewm_assets.training.sampler.batch_sampler import _id_words
from genolewm_assets.training.sampler.entry_kernels import entries
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.referees.sampling.plain_philox import plain_philox
from genolewm_assets_tests.rows import each_row

IDS = st.integers(0, 2**128 - 1).map("{:032x}".format)
KEYS = st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**33), IDS, st.integers(0, 2**62))
BITS = 2**32 - 1


def compiled_key(seed: int, epoch: int, window_id: str, again: int) -> np.ndarray:
    """Return the key of a visit as the kernels derive it."""
    key, of_epoch = np.zeros(4, np.int64), np.array(epoch_key(seed, epoch))
    kernels.start_visit(key, _id_words(np.array([window_id], "S32"))[0], of_epoch, again)
    return key


@pytest.mark.parametrize("function", [plain_philox, philox, kernels.philox])
def test_known_answers(function):
    """Those of Random123, ``kat_vectors``: counter, key, block."""
    for line in """
        00000000 00000000 00000000 00000000 00000000 00000000 6627e8d5 e169c58d bc57ac4c 9b00dbd8
        ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff 408f276d 41c83b0e a20bc7c6 6d5451fd
        243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0 d16cfe09 94fdcceb 5001e420 24126ea1
    """.strip().splitlines():
        words = [int(word, 16) for word in line.split()]
        assert function(*words[:6]) == tuple(words[6:])


@given(words=st.lists(st.integers(0, BITS), min_size=6, max_size=6))
@settings(max_examples=200, deadline=None)
def test_blocks_are_those_of_the_referee(words):
    assert philox(*words) == kernels.philox(*words) == plain_philox(*words)


@given(parts=KEYS, stream=st.integers(0, BITS))
@settings(max_examples=100, deadline=None)
def test_every_part_of_a_key_is_where_the_decision_says(parts, stream):
    seed, epoch, window_id, again = parts
    digits = [int(window_id[at : at + 8], 16) for at in (0, 8, 16, 24)]
    of_epoch = plain_philox(epoch & BITS, epoch >> 32, 0, 0, seed & BITS, seed >> 32)[:2]
    k0, k1, c2, c3 = plain_philox(*digits, *of_epoch)
    draws = DrawKey.of(*parts).draws(stream)
    for block in range(3):
        expected = plain_philox(block, stream, c2 ^ (again & BITS), c3 ^ (again >> 32), k0, k1)
        assert tuple(draws.word() for _ in range(4)) == expected


@given(parts=KEYS, stream=st.integers(0, BITS), ns=st.lists(st.integers(1, 2**31), max_size=30))
@settings(max_examples=100, deadline=None)
def test_numbers_are_those_of_the_plain_draws(parts, stream, ns):
    plain, streams = DrawKey.of(*parts).draws(stream), np.zeros((3, kernels.STREAM_WORDS), np.int64)
    kernels.start_stream(streams, 1, compiled_key(*parts), stream)
    for n in ns:
        assert kernels.below(streams, 1, n) == plain.below(n)
        assert kernels.word(streams, 1) == plain.word()
        assert kernels.uniform(streams, 1) == plain.uniform()


@given(n=st.integers(0, 60), stop=st.integers(0, 60))
@settings(max_examples=50, deadline=None)
def test_permutations_are_taken_as_lazily(n, stop):
    parts = (1, 2, "ab" * 16, 3)
    plain, streams = DrawKey.of(*parts).draws(4), np.zeros((3, kernels.STREAM_WORDS), np.int64)
    kernels.start_stream(streams, 2, compiled_key(*parts), 4)
    numbers, order, left, taken = plain.permuted(n), np.arange(n), n, []
    while left > 0 and len(taken) < stop:
        taken.append(kernels.take_permuted(streams, 2, order, left))
        left -= 1
    assert taken == [number for _, number in zip(taken, numbers, strict=False)]
    assert len(taken) == min(n, stop)
    # Both streams are at the same number.
    assert kernels.word(streams, 2) == plain.word()


def is_even(counts: np.ndarray) -> bool:
    """Tell whether chi-squared of equal shares is less than what is exceeded once in 10,000."""
    expected, degrees = counts.sum() / counts.size, counts.size - 1
    # Wilson and Hilferty's cube root is near normal.
    spread = 2 / (9 * degrees)
    return bool(((counts - expected) ** 2 / expected).sum() < degrees * (1 - spread + 3.72 * spread**0.5) ** 3)


def test_numbers_of_any_size_are_even():
    draws = DrawKey.of(0, 0, "0" * 32, 0).draws(0)
    for n in (3, 3 << 30, 2**32, 3 << 60, 2**64):
        counts = np.bincount([draws.below(n) * 3 // n for _ in range(9_000)], minlength=3)
        assert counts.sum() == 9_000
        # Of three thirds of 3 * 2**30, words without the rejected ones would give 1.5 times as many in each second.
        assert is_even(counts)
    assert abs(np.mean([draws.uniform() for _ in range(4_000)]) - 0.5) < 4 / np.sqrt(12 * 4_000)
    counts = np.bincount([next(DrawKey.of(1, i, "0" * 32, 0).draws(0).permuted(6)) for i in range(6_000)], minlength=6)
    assert is_even(counts)


def test_what_cannot_be_drawn_is_named():
    for n in (0, 2**64 + 1):
        with pytest.raises(ConfigurationError, match="nothing to choose from"):
            DrawKey((0, 0, 0, 0)).draws(0).below(n)
    for seed in (-1, 2**64):
        with pytest.raises(ConfigurationError, match=r"seed: out of range: expected 0 to 2\*\*64 - 1"):
            seed_words(seed)


def test_entries_close_over_the_digest_alone():
    """Numba hashes what an entry closes over; a kernel there would make the key another one in every process."""
    cells = [cell.cell_contents for entry in entries() for cell in entry.py_func.__closure__]
    assert len(cells) == len(entries())
    assert len(set(cells)) == 1
    assert all(isinstance(cell, int) for cell in cells)


held_kernels = Late("genolewm_assets.training.sampler.held_kernels")


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
    found = held_kernels.rows_between(alleles_at([7, 9], pos, [1, 10, 20]), 1, low, low + size)
    assert found == tuple(2 + np.searchsorted(pos, [low, low + size]))


@each_row("spread", ["even", "clustered", "equal", "doubling"])
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
