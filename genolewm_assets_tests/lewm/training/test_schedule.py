from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.lewm.packages.mix import EDIT_SHARES, PackageMix, Shares, window_shares
from genolewm_assets.lewm.training.mix import plan_epoch
from genolewm_assets.lewm.training.schedule import (
    EditMix,
    EditSource,
    FileOrder,
    WindowSchedule,
    count_visits,
)
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.stream_world import window_alleles

GNOMAD, SNV, INDEL, CLINVAR = tuple(EditSource)
ORIGINS = np.array(
    ["reference"] * 300
    + ["eukaryote_generator"] * 100
    + ["mrna_evo2"] * 400
    + ["mrna_splice_evo2"] * 7
    + ["prokaryote_evo2"] * 90
)


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
        for rows in schedule.rows_by_stratum.values():
            assert seen[rows].max() - seen[rows].min() <= 1


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


@given(st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=30))
def test_visits_count_the_earlier_ones(ids):
    wanted = [ids[:i].count(one) for i, one in enumerate(ids)]
    assert count_visits(np.unique(np.array(ids, dtype="S32"), return_inverse=True)[1]).tolist() == wanted


def test_file_order_is_every_window_once():
    order = FileOrder(3, EditMix.named("exact").slots(8))
    assert order.rows(0).tolist() == order.rows(5).tolist() == [0, 1, 2]
    assert len(order) == 3


def served(mix: EditMix, n_edits: int, ordinals: Iterable[int]) -> Counter[EditSource]:
    """Count the sources of the slots of some visits."""
    at = np.array(list(ordinals), dtype=np.int64)
    return Counter(list(EditSource)[code] for code in mix.slots(n_edits).plans(at, at).ravel())


@each_row("ordinal", [0, 1, 7, 12_345])
def test_the_exact_mix_holds_in_every_window(ordinal):
    assert served(EditMix.named("exact"), 8, [ordinal]) == {GNOMAD: 3, SNV: 3, INDEL: 1, CLINVAR: 1}


@each_row("first", [0, 1, 4, 999])
def test_the_rotating_mix_holds_over_any_five_windows(first):
    mix = EditMix.named("rotating")
    slots = served(mix, 8, range(first, first + 5))
    assert slots == {GNOMAD: 16, SNV: 12, INDEL: 8, CLINVAR: 4}


@pytest.mark.parametrize(("name", "wanted"), [("exact", (15, 15, 5, 5)), ("rotating", (16, 12, 8, 4))])
def test_other_numbers_of_edits_keep_the_shares_over_whole_cycles(name, wanted):
    mix = EditMix.named(name)
    slots = served(mix, 5, range(8))
    assert tuple(slots[source] for source in (GNOMAD, SNV, INDEL, CLINVAR)) == wanted


def test_an_unknown_mix_is_named():
    with pytest.raises(ConfigurationError, match=r"one of \['exact', 'rotating'\], got 'even'"):
        EditMix.named("even")
