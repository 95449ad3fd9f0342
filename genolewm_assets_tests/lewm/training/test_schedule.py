from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.lewm.packages.schema import SOURCE_MIX
from genolewm_assets.lewm.training.schedule import (
    EditMix,
    EditSource,
    FileOrder,
    WindowSchedule,
    apportion,
    count_visits,
)

GNOMAD, SNV, INDEL, CLINVAR = tuple(EditSource)
ORIGINS = np.array(
    ["reference"] * 300
    + ["eukaryote_generator"] * 100
    + ["mrna_evo2"] * 400
    + ["mrna_splice_evo2"] * 7
    + ["prokaryote_evo2"] * 90
)


def test_the_mix_of_visits_is_that_of_the_plan():
    schedule = WindowSchedule.plan(ORIGINS, SOURCE_MIX, None, seed=1)
    assert len(schedule) == 897
    for epoch in range(3):
        counts = Counter(ORIGINS[schedule.rows(epoch)].tolist())
        eukaryote = counts["reference"] + counts["eukaryote_generator"]
        realised = (eukaryote, counts["mrna_evo2"], counts["mrna_splice_evo2"], counts["prokaryote_evo2"])
        for n, share in zip(realised, (0.5, 0.25, 0.1, 0.15), strict=True):
            assert abs(n / 897 - share) < 1 / 897


@pytest.mark.parametrize("n_windows", [50, 400, 1_234])
def test_every_window_is_seen_before_any_is_seen_again(n_windows):
    schedule = WindowSchedule.plan(ORIGINS, SOURCE_MIX, n_windows, seed=1)
    seen = np.zeros(len(ORIGINS), int)
    for epoch in range(6):
        np.add.at(seen, schedule.rows(epoch), 1)
        for rows in schedule.rows_by_source.values():
            assert seen[rows].max() - seen[rows].min() <= 1


def test_epochs_and_seeds_have_their_own_order():
    schedule = WindowSchedule.plan(ORIGINS, SOURCE_MIX, None, seed=1)
    assert schedule.rows(0).tolist() == WindowSchedule.plan(ORIGINS, SOURCE_MIX, None, seed=1).rows(0).tolist()
    assert schedule.rows(0).tolist() != schedule.rows(1).tolist()
    assert schedule.rows(0).tolist() != WindowSchedule.plan(ORIGINS, SOURCE_MIX, None, seed=2).rows(0).tolist()
    # Sources are mixed throughout: the first half of an epoch has nearly half of each.
    half = Counter(ORIGINS[schedule.rows(0)[:448]].tolist())
    assert abs(half["mrna_evo2"] - 112) < 30


def test_shares_of_absent_sources_are_divided_among_the_others():
    present = ORIGINS[(ORIGINS == "reference") | (ORIGINS == "prokaryote_evo2")]
    counts = Counter(present[WindowSchedule.plan(present, SOURCE_MIX, 1_300, seed=0).rows(0)].tolist())
    assert counts == {"reference": 1_000, "prokaryote_evo2": 300}


def test_nothing_to_visit_is_named():
    with pytest.raises(ConfigurationError, match="none to visit"):
        WindowSchedule.plan(ORIGINS, {"fungi": 1.0}, None, seed=0)
    with pytest.raises(ConfigurationError, match="0 per epoch"):
        WindowSchedule.plan(ORIGINS, SOURCE_MIX, 0, seed=0)
    with pytest.raises(ConfigurationError, match="0 windows"):
        WindowSchedule.plan(ORIGINS[:0], SOURCE_MIX, None, seed=0)


@given(st.dictionaries(st.text(max_size=2), st.floats(0.01, 10), min_size=1, max_size=6), st.integers(0, 1_000))
def test_apportioned_counts_add_up_and_are_within_one(shares, total):
    counts = apportion(shares, total)
    assert sum(counts.values()) == total
    for name, n in counts.items():
        assert abs(n - total * shares[name] / sum(shares.values())) < 1 + 1e-9


@given(st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=30))
def test_visits_count_the_earlier_ones(ids):
    wanted = [ids[:i].count(one) for i, one in enumerate(ids)]
    assert count_visits(np.array(ids, dtype="S32")).tolist() == wanted


def test_file_order_is_every_window_once():
    assert FileOrder(3).rows(0).tolist() == FileOrder(3).rows(5).tolist() == [0, 1, 2]
    assert len(FileOrder(3)) == 3


@pytest.mark.parametrize("ordinal", [0, 1, 7, 12_345])
def test_the_exact_mix_holds_in_every_window(ordinal):
    assert Counter(EditMix.named("exact").plan(ordinal, 8)) == {GNOMAD: 3, SNV: 3, INDEL: 1, CLINVAR: 1}


@pytest.mark.parametrize("first", [0, 1, 4, 999])
def test_the_rotating_mix_holds_over_any_five_windows(first):
    mix = EditMix.named("rotating")
    slots = Counter(source for ordinal in range(first, first + 5) for source in mix.plan(ordinal, 8))
    assert slots == {GNOMAD: 16, SNV: 12, INDEL: 8, CLINVAR: 4}


@pytest.mark.parametrize(("name", "wanted"), [("exact", (15, 15, 5, 5)), ("rotating", (16, 12, 8, 4))])
def test_other_numbers_of_edits_keep_the_shares_over_whole_cycles(name, wanted):
    mix = EditMix.named(name)
    slots = Counter(source for ordinal in range(8) for source in mix.plan(ordinal, 5))
    assert tuple(slots[source] for source in (GNOMAD, SNV, INDEL, CLINVAR)) == wanted


def test_an_unknown_mix_is_named():
    with pytest.raises(ConfigurationError, match=r"one of \['exact', 'rotating'\], got 'even'"):
        EditMix.named("even")
