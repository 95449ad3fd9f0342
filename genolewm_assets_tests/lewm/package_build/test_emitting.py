from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.genome import Split
from genolewm_assets.lewm.edits.haplotypes import HaplotypeSampler
from genolewm_assets.lewm.package_build.emitting import alleles_inside, windows_that_emit
from genolewm_assets.lewm.package_build.writer import write_package
from genolewm_assets_tests.worlds.lewm.package_world import (
    BLOCK_VALIDATION,
    PROFILE,
    alleles,
    default_haplotypes,
    failed,
    haplotypes,
    held_alleles,
    make_sources,
)


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

    monkeypatch.setattr("genolewm_assets.lewm.package_build.emitting.HaplotypeSampler", sampler)
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
        variants = pq.read_table(tmp_path / f"variants/{split}.parquet").to_pylist()
        for row in variants:
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
