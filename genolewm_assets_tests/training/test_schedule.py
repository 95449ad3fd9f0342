from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from unittest import mock

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.packages.epoch_plan import plan_epoch
from genolewm_assets.packages.mix import EDIT_SHARES, PackageMix, Shares, window_shares
from genolewm_assets.training import schedule
from genolewm_assets.training.schedule import EditCycle, EditSource, FileOrder, WindowSchedule, find_repeated
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.stream_world import window_alleles

order_kernels = Late("genolewm_assets.training.sampler.order_kernels")
SEED = np.array([5, 7])
GNOMAD, SNV, INDEL, CLINVAR = tuple(EditSource)
_SIZES = {
    "reference": 300,
    "eukaryote_generator": 100,
    "mrna_evo2": 400,
    "mrna_splice_evo2": 7,
    "prokaryote_evo2": 90,
}
ORIGINS = np.repeat(list(_SIZES), list(_SIZES.values()))


def schedule_of(origins=ORIGINS, n_windows=None, *, mix=None, seed=1) -> WindowSchedule:
    """Return the schedule of windows without real alleles."""
    none = np.zeros(len(origins), np.int64)
    wanted = PackageMix(Shares(window_shares(mix), dict(EDIT_SHARES)))
    plan = plan_epoch(window_alleles(origins, none, none), wanted, n_edits=8, n_visits=n_windows)
    return WindowSchedule.of(plan, plan.slots, seed=seed)


def test_the_mix_of_visits_is_that_of_the_plan():
    schedule = schedule_of()
    assert len(schedule) == 667
    for epoch in range(3):
        counts = Counter(ORIGINS[schedule.rows(epoch)].tolist())
        wanted = {"reference": 0.45, "eukaryote_generator": 0.05, "mrna_evo2": 0.25, "mrna_splice_evo2": 0.1}
        for name, share in (wanted | {"prokaryote_evo2": 0.15}).items():
            assert abs(counts[name] / 667 - share) < 1.5 / 667


@each_row("n_windows", [50, 400, 1_234])
def test_every_window_is_seen_before_any_is_seen_again(n_windows):
    schedule = schedule_of(n_windows=n_windows)
    seen = np.zeros(len(ORIGINS), int)
    for epoch in range(6):
        np.add.at(seen, schedule.rows(epoch), 1)
        for rows in np.split(schedule.rows_by_stratum, schedule.starts[1:-1]):
            assert seen[rows].max() - seen[rows].min() <= 1


@each_row("n", [1, 2, 3, 6, 7, 16, 17, 1_000, 1_025])
def test_permutations_hold_every_number_once_and_have_an_inverse(n):
    entries = [order_kernels.permuted(at, n, SEED, 3, 2, 1) for at in range(n)]
    assert sorted(entries) == list(range(n))
    assert [order_kernels.permuted(entry, n, SEED, 3, 2, -1) for entry in entries] == list(range(n))


@each_row("n", [4, 5, 6, 1_000])
def test_permutations_are_even(n):
    """Two neighbouring entries of 12,000 permutations: every pair of them, or of two tenths, is equally frequent."""
    counts = np.zeros((n, n), int)
    for number in range(12_000):
        first, second = (order_kernels.permuted(at, n, SEED, number, 1, 1) for at in (0, 1))
        counts[first, second] += 1
    assert not counts.diagonal().any()
    if n > 10:
        counts = counts.reshape(10, n // 10, 10, n // 10).sum(axis=(1, 3))
    pairs = counts.ravel() if n > 10 else counts[~np.eye(n, dtype=bool)]
    expected, degrees = pairs.sum() / pairs.size, pairs.size - 1
    assert ((pairs - expected) ** 2 / expected).sum() < degrees + 5 * np.sqrt(2 * degrees)


@each_row("n_windows", [50, 1_234, 5_000])
def test_a_visit_is_told_by_its_number_alone(n_windows):
    """Workers, ranks and resumed runs compute theirs; earlier visits of a row are 0, 1, 2 ..., each once."""
    schedule = schedule_of(n_windows=n_windows)
    for epoch in range(4):
        rows, again = schedule.visits(epoch, np.arange(n_windows))
        some = np.array([n_windows - 1, 0, 17, 3])
        alone = [schedule.visits(epoch, some[k : k + 1]) for k in range(4)]
        assert [(int(row[0]), int(n[0])) for row, n in alone] == list(zip(rows[some], again[some], strict=True))
        for row in set(rows.tolist()):
            numbers = np.sort(again[rows == row])
            assert numbers.tolist() == list(range(len(numbers)))


def test_millions_of_windows_take_no_time_to_begin():
    """Number 7 of an epoch, the windows of which would fill 40 GB as an array of rows."""
    schedule = WindowSchedule(np.arange(10, dtype=np.int32), np.array([0, 10]), (5e9,), EditCycle.named("exact", 8), 1)
    rows, again = schedule.visits(3, np.array([7, 4_999_999_999]))
    assert len(schedule) == 5_000_000_000
    assert (rows < 10).all()
    assert (again < 500_000_001).all()


def test_epochs_and_seeds_have_their_own_order():
    schedule = schedule_of()
    assert schedule.rows(0).tolist() == schedule_of().rows(0).tolist()
    assert schedule.rows(0).tolist() != schedule.rows(1).tolist()
    assert schedule.rows(0).tolist() != schedule_of(seed=2).rows(0).tolist()
    # Sources are mixed throughout: the first half of an epoch has nearly half of each.
    half = Counter(ORIGINS[schedule.rows(0)[:333]].tolist())
    assert abs(half["mrna_evo2"] - 83) < 25


def test_shares_of_absent_sources_are_divided_among_the_others():
    present = ORIGINS[(ORIGINS == "reference") | (ORIGINS == "prokaryote_evo2")]
    counts = Counter(present[schedule_of(present, 1_300).rows(0)].tolist())
    assert counts == {"reference": 1_000, "prokaryote_evo2": 300}


def test_nothing_to_visit_is_named():
    with pytest.raises(ConfigurationError, match=r"unknown name: expected one of reference, .*got 'fungi'"):
        schedule_of(mix={"fungi": 1.0})
    with pytest.raises(ConfigurationError, match="0 per epoch"):
        schedule_of(n_windows=0)
    with pytest.raises(ConfigurationError, match="none to visit"):
        schedule_of(ORIGINS[:0])
    with pytest.raises(ConfigurationError, match=r"one of \['exact', 'rotating'\], got 'even'"):
        EditCycle.named("even", 8)


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 7))
def test_repeated_rows_are_those_that_an_earlier_one_equals(numbers, at_once):
    with mock.patch.object(schedule, "_AT_ONCE", at_once):
        rows, earlier = find_repeated(np.array(numbers, dtype=np.int64))
    wanted = [(row, n) for row, one in enumerate(numbers) if (n := numbers[:row].count(one))]
    assert list(zip(rows.tolist(), earlier.tolist(), strict=True)) == wanted


def test_file_order_is_every_window_once():
    order = FileOrder(3, EditCycle.named("exact", 8))
    for epoch in (0, 5):
        rows, again = order.visits(epoch, np.array([1, 2]))
        assert (rows.tolist(), again.tolist()) == ([1, 2], [0, 0])
    assert len(order) == 3


def served(mix: str, n_edits: int, ordinals: Iterable[int]) -> Counter[EditSource]:
    """Count the sources of the slots of some visits."""
    at = np.array(list(ordinals), dtype=np.int64)
    return Counter(list(EditSource)[code] for code in EditCycle.named(mix, n_edits).plans(at, at).ravel())


@each_row("ordinal", [0, 1, 7, 12_345])
def test_the_exact_mix_holds_in_every_window(ordinal):
    assert served("exact", 8, [ordinal]) == {GNOMAD: 3, SNV: 3, INDEL: 1, CLINVAR: 1}


@each_row("first", [0, 1, 4, 999])
def test_the_rotating_mix_holds_over_any_five_windows(first):
    slots = served("rotating", 8, range(first, first + 5))
    assert slots == {GNOMAD: 16, SNV: 12, INDEL: 8, CLINVAR: 4}


@pytest.mark.parametrize(("name", "wanted"), [("exact", (15, 15, 5, 5)), ("rotating", (16, 12, 8, 4))])
def test_other_numbers_of_edits_keep_the_shares_over_whole_cycles(name, wanted):
    slots = served(name, 5, range(8))
    assert tuple(slots[source] for source in (GNOMAD, SNV, INDEL, CLINVAR)) == wanted
