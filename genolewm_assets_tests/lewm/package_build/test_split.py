from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.genome import IntervalArray, Split
from genolewm_assets.lewm.holdouts.index import HoldoutIndex
from genolewm_assets.lewm.package_build.split import choose_windows, find_regions, split_alleles, split_windows
from genolewm_assets.lewm.windows.schema import WINDOWS
from genolewm_assets_tests.worlds.lewm.package_world import (
    SEQUENCES,
    alleles,
    held_alleles,
    held_corpus,
    intervals,
    table,
)

SIZE, STRIDE, MARGIN = 600, 400, 96
HOLDOUTS = ("holdout-chr", "holdout-clinvar", "holdout-haplotypes")
ROLES = ("validation", "test")


def windows_of(contig: str, n: int = 12) -> pa.Table:
    rows = [
        {
            "contig": contig,
            "start": 100 + i * STRIDE,
            "end": 100 + i * STRIDE + SIZE,
            "window_hash": bytes(32),
            "window_id": "0" * 32,
            "gc": 0.5,
            "frame": 0,
            "strand": "+",
            "gap_distance_bp": 0,
        }
        for i in range(n)
    ]
    return table(rows, WINDOWS.arrow)


def decide(stretches: pa.Table, listed: pa.Table):
    index = HoldoutIndex(stretches, listed, held_corpus())
    regions = find_regions("chr17", stretches, listed)
    return (
        split_windows("chr17", windows_of("chr17"), margin_bp=MARGIN, regions=regions, holdouts=index),
        regions,
        index,
    )


stretches_strategy = st.lists(
    st.tuples(
        st.sampled_from(HOLDOUTS),
        st.sampled_from(ROLES),
        st.sampled_from(["chr17", "chr20"]),
        st.integers(0, 6_000),
        st.integers(1, 900),
    ).map(lambda t: (*t[:4], t[3] + t[4])),
    max_size=6,
)
sites_strategy = st.lists(
    st.tuples(st.sampled_from(ROLES), st.integers(0, 6_000)), max_size=5, unique_by=lambda site: site[1]
)


@given(stretches_strategy, sites_strategy)
def test_windows_are_split_as_a_plain_loop_over_the_definitions_does(stretches, sites):
    listed = held_alleles(*(("holdout-temporal", role, alleles("chr17", [at])[0]) for role, at in sites))
    split, _, _ = decide(intervals(*stretches), listed)
    rows = windows_of("chr17").to_pylist()
    found = {key: set(value.tolist()) for key, value in split.evaluation.items()}
    for i, row in enumerate(rows):
        start, reach = row["start"], row["end"] + MARGIN
        met = {(h, r) for h, r, contig, a, b in stretches if contig == "chr17" and a < reach and b > start}
        tested = any(role == "test" for _, role in met)
        holding = {("holdout-temporal", role) for role, at in sites if start + 64 <= at and at + 1 <= row["end"] - 64}
        expected = {key for key in met | holding if key[1] == "test" or not tested}
        assert split.held_out[i] == bool(met)
        assert {(h, str(s)) for (h, s), members in found.items() if i in members} == expected


@given(stretches_strategy, sites_strategy)
def test_alleles_are_split_as_a_plain_loop_over_the_definitions_does(stretches, sites):
    listed = held_alleles(*(("holdout-temporal", role, alleles("chr17", [at])[0]) for role, at in sites))
    _, regions, index = decide(intervals(*stretches), listed)
    starts = sorted({at for _, at in sites} | {at + 1 for _, at in sites} | set(range(0, 6_000, 250)))
    snvs = pa.Table.from_pylist(alleles("chr17", starts))
    masks = split_alleles(snvs, regions, index)
    for i, at in enumerate(starts):
        met = {(h, r) for h, r, contig, a, b in stretches if contig == "chr17" and a <= at < b}
        met |= {("holdout-temporal", role) for role, site in sites if site == at}
        tested = any(role == "test" for _, role in met)
        expected = {key for key in met if key[1] == "test" or not tested}
        found = {(h, str(s)) for h, by_split in masks.items() for s, mask in by_split.items() if h and mask[i]}
        assert masks[None][Split.TRAIN][i] == (not met)
        assert found == expected


@pytest.mark.parametrize(
    ("stretch", "held"),
    [
        ((0, 100), False),  # ends where the first window starts
        ((0, 101), True),
        ((100 + SIZE + MARGIN, 100 + SIZE + MARGIN + 1), False),  # right behind its flank
        ((100 + SIZE + MARGIN - 1, 100 + SIZE + MARGIN), True),  # the last base of its flank
    ],
)
def test_border_of_the_footprint(stretch, held):
    split, _, _ = decide(intervals(("holdout-chr", "test", "chr17", *stretch)), held_alleles())
    assert split.held_out[0] == held


@pytest.mark.parametrize(
    ("at", "inside"), [(163, False), (164, True), (100 + SIZE - 65, True), (100 + SIZE - 64, False)]
)
def test_a_window_serves_an_allele_only_inside_the_inset(at, inside):
    allele = alleles("chr17", [at])[0]
    split, _, _ = decide(intervals(), held_alleles(("holdout-temporal", "validation", allele)))
    assert (0 in split.evaluation["holdout-temporal", Split.VALIDATION]) == inside
    assert not split.held_out.any()


def test_another_spelling_of_a_held_out_allele_is_recognised_by_key_only_in_normal_form():
    start = 2_000
    base = chr(SEQUENCES["chr17"][start])
    snv = alleles("chr17", [start])
    regions = find_regions("chr17", intervals(), held_alleles(("holdout-temporal", "test", snv[0])))
    index = HoldoutIndex(intervals(), held_alleles(("holdout-temporal", "test", snv[0])), held_corpus())
    other = [{**snv[0], "alt": next(b for b in "ACGT" if b not in (base, snv[0]["alt"]))}]
    masks = split_alleles(pa.Table.from_pylist(snv + other), regions, index)
    assert masks[None][Split.TRAIN].tolist() == [False, True]


def test_the_choice_is_frozen_nested_and_free_of_order():
    starts = {"chr17": np.arange(0, 400_000, 400), "chr20": np.arange(0, 400_000, 400)}
    rows = {name: np.arange(1_000) for name in starts}

    def choose(limit: int, names: list[str], seed: int = 0) -> set[tuple[str, int]]:
        chosen = choose_windows({n: rows[n] for n in names}, starts, holdout="holdout-chr", limit=limit, seed=seed)
        assert all(np.all(np.diff(picked) > 0) for picked in chosen.values())
        return {(name, int(row)) for name, picked in chosen.items() for row in picked}

    some = choose(500, ["chr17", "chr20"])
    assert len(some) == 500
    assert some == choose(500, ["chr20", "chr17"])
    assert choose(100, ["chr17", "chr20"]) < some
    assert some != choose(500, ["chr17", "chr20"], seed=1)
    assert 200 < sum(name == "chr17" for name, _ in some) < 300
    assert len(choose(500, ["chr17"])) == 500
    assert choose(5_000, ["chr17"]) == {("chr17", i) for i in range(1_000)}


def test_a_holdout_of_alleles_only_has_no_intervals():
    listed = held_alleles(("holdout-clinvar", "test", alleles("chr17", [3_000])[0]))
    regions = find_regions("chr17", intervals(("holdout-clinvar", "test", "chr20", 0, 10)), listed)
    assert regions.alleles == {}  # its windows are found by the intervals that it has elsewhere
    assert regions.intervals == {}
    alone = find_regions("chr17", intervals(), listed)
    assert alone.alleles["holdout-clinvar", Split.TEST] == IntervalArray(np.array([3_000]), np.array([3_001]))
