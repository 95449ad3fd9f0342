from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.edits.haplotypes import HaplotypeSampler
from genolewm_assets.genome import IntervalArray, Split
from genolewm_assets.holdouts.index import HoldoutIndex
from genolewm_assets.package_build.emitting import alleles_inside, windows_that_emit
from genolewm_assets.package_build.split import choose_windows, find_regions, split_alleles, split_windows
from genolewm_assets.package_build.writer import write_package
from genolewm_assets.windows.reference.schema import WINDOWS
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.package_world import (
    BLOCK_VALIDATION,
    PROFILE,
    SEQUENCES,
    alleles,
    default_haplotypes,
    failed,
    haplotypes,
    held_alleles,
    held_corpus,
    intervals,
    make_sources,
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
    masks = split_alleles(pa.Table.from_pylist(alleles("chr17", starts)), regions, index)
    for i, at in enumerate(starts):
        met = {(h, r) for h, r, contig, a, b in stretches if contig == "chr17" and a <= at < b}
        met |= {("holdout-temporal", role) for role, site in sites if site == at}
        tested = any(role == "test" for _, role in met)
        expected = {key for key in met if key[1] == "test" or not tested}
        found = {(h, str(s)) for h, by_split in masks.items() for s, mask in by_split.items() if h and mask[i]}
        assert masks[None][Split.TRAIN][i] == (not met)
        assert found == expected


@each_row(
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


@each_row(("at", "inside"), [(163, False), (164, True), (100 + SIZE - 65, True), (100 + SIZE - 64, False)])
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


def emitting(split: Split, **changes: object) -> list[tuple[int, int]]:
    """Return start and end of the windows of chr17 that emit."""
    sources = make_sources(**changes)
    table = sources.windows["chr17"]
    rows = windows_that_emit(sources, {"chr17": np.arange(table.num_rows)}, split).get("chr17", [])
    return [(table["start"][int(row)].as_py(), table["end"][int(row)].as_py()) for row in rows]


def having_two(*starts: int) -> list[tuple[int, int]]:
    """Return the windows of chr17 with two of some SNVs outside the margins, at least 6 bases apart."""
    table = make_sources().windows["chr17"]
    found = []
    for start, end in zip(table["start"].to_pylist(), table["end"].to_pylist(), strict=True):
        inside = [at for at in starts if start + 64 <= at < end - 64]
        if inside and inside[-1] - inside[0] > 6:
            found.append((start, end))
    return found


def test_a_window_emits_where_two_alleles_of_one_haplotype_can_be_edits():
    assert emitting(Split.VALIDATION) == having_two(6_110, 6_150, 6_250, 6_350)
    assert emitting(Split.TEST) == having_two(20_150, 20_200, 20_250)
    close = haplotypes(("test", "u3", 4, (20_150, 20_154)))
    assert emitting(Split.TEST, haplotypes=close) == []
    assert emitting(Split.VALIDATION, haplotypes=close) == []


def test_haplotypes_of_other_contigs_change_nothing(monkeypatch):
    there = haplotypes(("test", "u3", 4, (20_150, 20_200)))
    moved = pa.Table.from_pylist([row | {"contig": "chr20"} for row in there.to_pylist()], there.schema)
    given = []

    def sampler(rows, *more, make=HaplotypeSampler):
        given.append(pc.unique(rows["contig"]).to_pylist())
        return make(rows, *more)

    monkeypatch.setattr("genolewm_assets.package_build.emitting.HaplotypeSampler", sampler)
    assert emitting(Split.TEST, haplotypes=pa.concat_tables([there, moved])) == having_two(20_150, 20_200)
    assert emitting(Split.TEST, haplotypes=moved) == []
    assert given == [["chr17"], []]


def test_validation_never_emits_an_allele_of_the_test():
    rows = [("holdout-temporal", "test", row) for row in alleles("chr17", [6_110, 6_150, 6_250])]
    assert emitting(Split.VALIDATION, alleles=held_alleles(*rows)) == []
    assert emitting(Split.VALIDATION, alleles=held_alleles(*rows[1:])) == having_two(6_110, 6_350)


def test_windows_that_emit_nothing_are_left_out_and_alleles_follow_the_windows(tmp_path):
    """Windows meet the block from base 6,000 on; those that hold less than two alleles of it are not evaluated on."""
    sources = make_sources()
    report = write_package(tmp_path, sources)
    assert failed(report.checks) == set()
    counts = report.counts
    for split, starts in ((Split.VALIDATION, (6_110, 6_150, 6_250, 6_350)), (Split.TEST, (20_150, 20_200, 20_250))):
        windows = pq.read_table(tmp_path / f"data/{split}-00000-of-00001.parquet").to_pylist()
        ours = [(row["start"], row["end"]) for row in windows if row["holdout"] == "holdout-haplotypes"]
        assert ours == having_two(*starts)
        assert (
            counts[f"{split}.holdout-haplotypes.windows"]
            == counts[f"{split}.holdout-haplotypes.available"]
            == len(ours)
        )
        for row in pq.read_table(tmp_path / f"variants/{split}.parquet").to_pylist():
            if row["holdout"] == "holdout-haplotypes":
                assert any(start < row["pos"] <= end for start, end in ours)
    reach = PROFILE.window_bp + PROFILE.margin_bp
    met = [
        start
        for start in sources.windows["chr17"]["start"].to_pylist()
        if start < BLOCK_VALIDATION[1] and start + reach > BLOCK_VALIDATION[0]
    ]
    silent = counts["validation.holdout-haplotypes.windows_without_haplotype"]
    assert silent == len(met) - len(having_two(6_110, 6_150, 6_250, 6_350)) > 0
    assert pq.read_table(tmp_path / "holdouts/haplotypes.parquet").equals(default_haplotypes())


@given(
    st.lists(st.integers(0, 40), unique=True, max_size=6).map(sorted),
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 12)), min_size=1, max_size=10),
    st.data(),
)
def test_an_allele_is_inside_with_all_its_bases(starts: list[int], drawn: list[tuple[int, int]], data: st.DataObject):
    windows = pa.table({"start": pa.array(starts, pa.int64()), "end": pa.array([at + 9 for at in starts], pa.int64())})
    rows = sorted(data.draw(st.sets(st.sampled_from(range(len(starts)))))) if starts else []
    table = pa.table({"pos": [pos for pos, _ in drawn], "ref": ["A" * size for _, size in drawn]})
    found = alleles_inside(table, windows, np.array(rows, dtype=np.int64))
    wanted = [any(starts[i] <= pos - 1 and pos - 1 + n <= starts[i] + 9 for i in rows) for pos, n in drawn]
    assert found.tolist() == wanted


def test_alleles_of_a_block_without_an_emitting_window_are_counted(tmp_path):
    report = write_package(tmp_path, make_sources(haplotypes=default_haplotypes().slice(0, 2)))
    assert report.counts["test.holdout-haplotypes.windows"] == 0
    assert report.counts["test.holdout-haplotypes.gnomad_alleles"] == 0
    # The block in test, bases 20,000 to 20,299, holds one gnomAD allele.
    assert report.counts["test.holdout-haplotypes.gnomad_alleles_in_no_window"] == 1
    variants = pq.read_table(tmp_path / "variants/test.parquet").to_pylist()
    assert not [row for row in variants if row["holdout"] == "holdout-haplotypes"]
    # It serves no evaluation, and does not go to training either.
    train = pq.read_table(tmp_path / "variants/train.parquet").to_pylist()
    assert not [row for row in train if row["chrom"] == "chr17" and 20_000 < row["pos"] <= 20_300]
