from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from genolewm_assets.edits.rules import EditSource
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.packages.epoch_plan import (
    WITH_CLINVAR,
    WITH_GNOMAD,
    WITH_NONE,
    EpochPlan,
    WindowAlleles,
    plan_epoch,
)
from genolewm_assets.packages.mix import EDIT_SHARES, PackageMix, Shares, present_shares, window_shares
from genolewm_assets.training.schedule import WindowSchedule
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.stream_world import window_alleles

CORPORA = ("eukaryote_generator", "mrna_evo2", "mrna_splice_evo2", "prokaryote_evo2")


def make_alleles(n_reference: int, n_corpus: int, *, seed: int = 0, with_clinvar: float = 0.3) -> WindowAlleles:
    """Return reference windows, some with alleles, and as many windows of each corpus source, without alleles."""
    rng = np.random.default_rng(seed)
    origins = np.repeat(["reference", *CORPORA], [n_reference, *[n_corpus] * 4])
    clinvar, gnomad = np.zeros(len(origins), np.int64), np.zeros(len(origins), np.int64)
    clinvar[:n_reference] = rng.poisson(4, n_reference) * (rng.random(n_reference) < with_clinvar)
    gnomad[:n_reference] = rng.poisson(12, n_reference)
    return window_alleles(origins, clinvar, gnomad)


def named_strata(alleles: WindowAlleles) -> NDArray[np.str_]:
    """Return the name of the stratum of every window."""
    names, code = alleles.strata()
    return np.array(names)[code]


def sources_of(plan: EpochPlan, ordinals: Sequence[int], rows: Sequence[int]) -> Counter[str]:
    """Count the sources of the slots of some visits."""
    codes = plan.slots.plans(np.array(ordinals, dtype=np.int64), np.array(rows, dtype=np.int64))
    return Counter(list(EditSource)[code].value for code in codes.ravel())


def served(alleles: WindowAlleles, mix: PackageMix, n_edits: int = 8) -> tuple[Shares, Counter[int], Shares]:
    """Count the slots and visits of one epoch as plainly as possible; return them with what the plan promises."""
    plan = plan_epoch(alleles, mix, n_edits=n_edits)
    rows = WindowSchedule.of(plan, plan.slots, seed=0).rows(0).tolist()
    origins, edits = Counter(), Counter()
    for ordinal, row in enumerate(rows):
        slots = sources_of(plan, [ordinal], [row])
        assert slots.total() == n_edits
        assert slots["clinvar"] <= alleles.clinvar[row]
        assert slots["gnomad"] <= alleles.gnomad[row]
        edits += slots
        origins[alleles.origin_names[alleles.origin[row]]] += n_edits
    total = edits.total()
    by_source = {source.value: edits[source.value] / total for source in EditSource}
    return Shares({name: n / total for name, n in origins.items()}, by_source), Counter(rows), plan.shares


@each_row("n_corpus", [150, 1_500, 15_000])
def test_served_shares_do_not_depend_on_the_size_of_the_corpus(n_corpus):
    """45 % of the visits are of reference windows, so at most 45 % of the edits are real: 3 parts gnomAD, 1 ClinVar."""
    shares, visits, promised = served(make_alleles(600, n_corpus), PackageMix())
    assert shares.farthest(promised) < 0.01
    assert shares.edits["gnomad"] == pytest.approx(0.3375, abs=0.02)
    assert shares.edits["clinvar"] == pytest.approx(0.1125, abs=0.01)
    assert shares.edits["synthetic_snv"] == pytest.approx(3 * shares.edits["synthetic_indel"], rel=0.05)
    assert max(visits.values()) <= 4


def test_wanting_more_never_serves_less():
    """Windows with ClinVar alleles have fewer gnomAD alleles here: to visit them more often would serve fewer."""
    origins = np.array(["reference"] * 100)
    clinvar, gnomad = np.repeat([0, 1], 50), np.repeat([4, 1], 50)
    served_shares = []
    for wanted in (0.2, 0.3125, 0.32, 0.375, 0.5):
        edits = {"gnomad": wanted, "synthetic_snv": 1 - wanted}
        mix = PackageMix(Shares({"reference": 1.0}, edits))
        plan = plan_epoch(window_alleles(origins, clinvar, gnomad), mix, n_edits=8)
        served_shares.append(plan.shares.edits["gnomad"])
    assert served_shares == sorted(served_shares)
    assert served_shares[-1] > 0.31


def test_short_epochs_serve_the_same_mix():
    alleles = make_alleles(1_000, 200, with_clinvar=0.1)
    whole, part = (plan_epoch(alleles, PackageMix(), n_edits=8, n_visits=n) for n in (None, 7))
    assert sum(part.visits.values()) == pytest.approx(7)
    scale = sum(whole.visits.values()) / 7
    assert {name: n * scale for name, n in part.visits.items()} == pytest.approx(dict(whole.visits))
    schedule = WindowSchedule.of(part, part.slots, seed=0)
    rows = np.concatenate([schedule.rows(epoch) for epoch in range(200)])
    assert len(rows) == 1_400
    for name, n in part.visits.items():
        assert np.count_nonzero(named_strata(alleles)[rows] == name) == pytest.approx(200 * n, abs=3)


def test_no_window_is_visited_more_often_than_allowed_in_any_epoch():
    alleles = make_alleles(1_000, 1_000, with_clinvar=0.065)
    plan = plan_epoch(alleles, PackageMix(max_visits=4), n_edits=8)
    schedule = WindowSchedule.of(plan, plan.slots, seed=0)
    for epoch in range(12):
        rows = schedule.rows(epoch)
        assert len(rows) == len(schedule)
        assert np.bincount(rows).max() <= 4


def test_a_mix_that_is_possible_is_served():
    wanted = Shares(window_shares(), {"gnomad": 0.15, "synthetic_snv": 0.6, "synthetic_indel": 0.2, "clinvar": 0.05})
    shares, _, promised = served(make_alleles(600, 500), PackageMix(wanted))
    assert shares.farthest(wanted) < 0.005
    assert promised.farthest(wanted) < 1e-5


def test_rare_alleles_are_visited_more_often_within_the_bound():
    """Alleles in one of 50 windows cannot give an eighth of all edits, however often the bound lets them be seen."""
    alleles = make_alleles(1_000, 200, with_clinvar=0.02)
    for most in (2, 4, 9):
        plan = plan_epoch(alleles, PackageMix(max_visits=most), n_edits=8)
        strata = named_strata(alleles)
        per_window = {name: n / np.count_nonzero(strata == name) for name, n in plan.visits.items()}
        assert per_window[WITH_CLINVAR] == pytest.approx(most - 1, rel=1e-3)
        ours = alleles.clinvar[strata == WITH_CLINVAR]
        possible = (most - 1) * np.minimum(ours, 4).sum() / (8 * sum(plan.visits.values()))
        assert plan.shares.edits["clinvar"] == pytest.approx(possible, rel=0.02)
        assert per_window[WITH_GNOMAD] >= 0.25 * 0.999


@given(st.data())
def test_any_alleles_and_shares_give_the_promised_epoch(data):
    n = data.draw(st.integers(1, 40))
    origins = np.array(data.draw(st.lists(st.sampled_from(["reference", *CORPORA]), min_size=n, max_size=n)))
    counts = [np.array(data.draw(st.lists(st.integers(0, 12), min_size=n, max_size=n)), np.int64) for _ in range(2)]
    weights = np.array(data.draw(st.lists(st.integers(0, 8), min_size=4, max_size=4).filter(any)), float)
    edits = dict(zip(EDIT_SHARES, (weights / weights.sum()).tolist(), strict=True))
    most, n_edits = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    mix = PackageMix(Shares(window_shares(), edits), max_visits=most)
    plan = plan_epoch(window_alleles(origins, *counts), mix, n_edits=n_edits, n_visits=400)
    assert sum(plan.visits.values()) == pytest.approx(400)
    assert min(plan.visits.values()) > 0
    real = ("clinvar", "gnomad")
    assert all(plan.shares.edits[name] <= edits[name] + 1e-5 for name in real)
    assert sum(plan.shares.edits.values()) == pytest.approx(1)
    rows = WindowSchedule.of(plan, plan.slots, seed=0).rows(0).tolist()
    counted = sources_of(plan, range(len(rows)), rows)
    for name in real:
        # Visits are whole numbers, and each of the few strata is rounded.
        assert counted[name] / (400 * n_edits) == pytest.approx(plan.shares.edits[name], abs=0.05)


def test_strata_are_told_by_the_alleles_of_the_window():
    origins = np.array(["reference"] * 4 + ["mrna_evo2"])
    alleles = window_alleles(origins, np.array([0, 0, 2, 1, 3]), np.array([0, 2, 0, 1, 1]))
    assert named_strata(alleles).tolist() == [WITH_NONE, WITH_GNOMAD, WITH_CLINVAR, WITH_CLINVAR, "mrna_evo2"]


def test_reference_windows_take_nine_tenths_of_the_eukaryotes():
    shares = window_shares()
    assert shares["reference"] == pytest.approx(9 * shares["eukaryote_generator"])
    assert sum(shares.values()) == pytest.approx(1)
    assert window_shares({"eukaryote_generator": 1.0}, 1.0) == {"reference": 1.0}
    halves = {"eukaryote_generator": 0.5, "reference": 0.5}
    assert window_shares(halves) == halves


def test_the_two_eukaryotes_take_each_others_share():
    shares = window_shares()
    without = present_shares(shares, {"eukaryote_generator", "prokaryote_evo2"})
    assert without == pytest.approx({"eukaryote_generator": 0.5 / 0.65, "prokaryote_evo2": 0.15 / 0.65})
    assert present_shares(shares, {"reference"}) == {"reference": 1.0}
    assert present_shares(shares, {"fungi"}) == {}


@each_row(
    ("mix", "share", "message"),
    [
        ({"fungi": 1.0}, None, "unknown name"),
        ({"reference": 0.5}, None, "shares do not add up: expected a sum of 1, got 0.5"),
        ({"reference": 1.5, "mrna_evo2": -0.5}, None, "shares do not add up"),
        ({"reference": 1.0}, 0.9, "names 'reference' itself"),
    ],
)
def test_impossible_shares_are_named(mix, share, message):
    with pytest.raises(ConfigurationError, match=message):
        window_shares(mix, share)


def test_impossible_edits_and_bounds_are_named():
    shares = PackageMix().wanted
    with pytest.raises(ConfigurationError, match=r"packages\.edits: unknown name: .*got 'dbsnp'"):
        PackageMix(replace(shares, edits={"dbsnp": 1.0}))
    with pytest.raises(ConfigurationError, match=r"packages\.mix_declared: shares do not add up"):
        PackageMix(shares, replace(shares, edits={"gnomad": 0.3}))
    with pytest.raises(ConfigurationError, match=r"packages\.max_visits: out of range"):
        PackageMix(max_visits=0)
