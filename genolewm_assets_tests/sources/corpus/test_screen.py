"""The screen stops no sequence that could be placed, and those that could not."""

from __future__ import annotations

import numpy as np
import pytest

from genolewm_assets.genome import reverse_complement
from genolewm_assets.sources.corpus.screen import KmerScreen, _sample
from genolewm_assets_tests.worlds.sources.corpus import random_bases

HELD = random_bases(31, 2_000_000)


@pytest.fixture(scope="module")
def screen() -> KmerScreen:
    made = KmerScreen()
    for start in range(0, len(HELD), 500_000):
        made.add(HELD[start : start + 500_000])
    return made


def with_errors(bases: bytes, every: int) -> bytes:
    """Return bases of which every ``every``-th is replaced: the worst way to distribute errors."""
    changed = np.frombuffer(bases, np.uint8).copy()
    changed[::every] = np.frombuffer(bases.translate(bytes.maketrans(b"ACGT", b"TGCA")), np.uint8)[::every]
    return changed.tobytes()


@pytest.mark.parametrize("length", [2_048, 12_288])
@pytest.mark.parametrize("every", [10_000, 20])
def test_what_can_be_placed_is_let_through(screen: KmerScreen, length: int, every: int) -> None:
    for start in range(0, len(HELD) - length, 97_001):
        bases = with_errors(HELD[start : start + length], every)
        # One tenth need not be in the part.
        bases = bases[: length * 9 // 10] + random_bases(start, length - length * 9 // 10)
        assert screen.may_hold(bases)
        assert screen.may_hold(reverse_complement(bases))


@pytest.mark.parametrize("length", [2_048, 12_288])
def test_what_is_elsewhere_is_stopped(screen: KmerScreen, length: int) -> None:
    assert not any(screen.may_hold(random_bases(seed, length)) for seed in range(20))


def test_chance_is_as_rare_as_the_part_is_small(screen: KmerScreen) -> None:
    # 2 million bases on two strands are 0.4 % of all 15-mers; a hash that is not one-to-one gives several times that.
    assert np.mean(screen._held) == pytest.approx(2 * len(HELD) / 4**15, rel=0.05)
    places = _sample(random_bases(32, 2_000_000))
    assert np.mean(screen._held[places]) == pytest.approx(2 * len(HELD) / 4**15, rel=0.1)


def test_what_is_short_or_unknown_is_no_error(screen: KmerScreen) -> None:
    assert screen.may_hold(b"ACGT")
    assert screen.may_hold(b"N" * 3_000)
