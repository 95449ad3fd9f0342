from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.lewm.holdouts.schema import HOLDOUT_ALLELES
from genolewm_assets.lewm.package_build.checks import PACKAGE_CHECKS, check_package
from genolewm_assets.lewm.package_build.leakage_checks import HeldInterval, HeldIntervals, check_no_allele
from genolewm_assets.lewm.package_build.plan import PackageSources
from genolewm_assets.lewm.package_build.writer import write_package
from genolewm_assets.lewm.packages.files import write_package_table
from genolewm_assets.lewm.packages.info import read_package_info
from genolewm_assets.lewm.packages.schema import PACKAGE_VARIANTS, PACKAGE_WINDOWS
from genolewm_assets_tests.worlds.lewm.package_world import (
    BLOCK_TEST,
    LENGTHS,
    SEQUENCES,
    UNBUFFERED,
    alleles,
    corpora,
    corpus,
    failed,
    held_alleles,
    held_corpus,
    intervals,
    make_cache,
    make_sources,
    reverse,
    simulate,
)

TRAIN, TEST = "data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet"


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, PackageSources]:
    sources = make_sources()
    report = write_package(tmp_path, sources)
    assert tuple(check.name for check in report.checks) == PACKAGE_CHECKS
    assert failed(report.checks) == set()
    return tmp_path, sources


def recheck(directory: Path, sources: PackageSources) -> set[str]:
    found = failed(check_package(directory, read_package_info(directory), sources))
    # A table that a test changes differs from the mapped form.
    return found - {"mapped_form_right"}


def leak(directory: Path, path: str, change: Callable[[pa.Table], pa.Table]) -> None:
    schema = PACKAGE_WINDOWS if path.startswith("data/") else PACKAGE_VARIANTS
    table = pq.read_table(directory / path)
    (directory / path).unlink()
    write_package_table(directory / path, [change(table)], schema)


def as_train(table: pa.Table) -> pa.Table:
    n = table.num_rows
    for name, values in (("holdout", [None] * n), ("role", ["train"] * n)):
        column = table.schema.get_field_index(name)
        table = table.set_column(column, table.schema.field(name), pa.array(values, pa.string()))
    return table


@pytest.mark.parametrize("row", [0, -1])
def test_a_test_window_in_train_is_found(written, row):
    directory, sources = written
    window = pq.read_table(directory / TEST).to_pylist()[row]
    leaked = as_train(pa.Table.from_pylist([window], schema=PACKAGE_WINDOWS.arrow))
    leak(directory, TRAIN, lambda table: pa.concat_tables([table, leaked]))
    # The last test window is a temporal one, which may be trained on, but then as often as it came.
    temporal = window["holdout"] == "holdout-temporal"
    expected = {"counts_add_up"} if temporal else {"no_holdout_window_in_train", "splits_disjoint", "counts_add_up"}
    assert recheck(directory, sources) == expected


def test_a_window_whose_flank_alone_meets_a_holdout_is_found(written):
    directory, sources = written
    free = pq.read_table(directory / TRAIN, columns=["origin", "contig", "start", "end"]).to_pylist()
    row = next(row for row in free if row["origin"] == "reference")
    base = ("holdout-chr", "test", "chr17")
    for at, found in ((row["end"] + 95, True), (row["end"] + 96, False)):
        table = pa.concat_tables([intervals((*base, 0, 1)), intervals((*base, at, at + 1))])
        (directory / "holdouts/intervals.parquet").unlink()
        from genolewm_assets.lewm.holdouts.schema import HOLDOUT_INTERVALS

        write_package_table(directory / "holdouts/intervals.parquet", [table], HOLDOUT_INTERVALS)
        windows = [r for r in free if r["origin"] == "reference" and r["start"] <= at < r["end"] + 96]
        assert ("no_holdout_window_in_train" in recheck(directory, sources)) == bool(windows)
        if found:
            assert row in windows


def test_a_held_out_allele_in_train_is_found_by_key_and_by_place(written):
    directory, sources = written
    variants = pq.read_table(directory / "variants/test.parquet").to_pylist()
    by_place = next(v for v in variants if v["holdout"] == "holdout-haplotypes")
    by_key = next(v for v in variants if v["holdout"] == "holdout-temporal")
    for variant in (by_place, by_key):
        original = (directory / "variants/train.parquet").read_bytes()
        leaked = as_train(pa.Table.from_pylist([variant], schema=PACKAGE_VARIANTS.arrow))
        leak(directory, "variants/train.parquet", lambda table, extra=leaked: pa.concat_tables([table, extra]))
        assert recheck(directory, sources) == {"no_holdout_allele_in_train", "splits_disjoint", "counts_add_up"}
        (directory / "variants/train.parquet").write_bytes(original)


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ({"placed_contig": "chr17", "placed_start": BLOCK_TEST[1], "placed_end": BLOCK_TEST[1] + 600}, False),
        ({"placed_contig": "chr17", "placed_start": BLOCK_TEST[1] - 1, "placed_end": BLOCK_TEST[1] + 600}, True),
        ({"placed_contig": "chr17", "placed_start": BLOCK_TEST[0] - 696, "placed_end": BLOCK_TEST[0] - 96}, False),
        ({"placed_contig": "chr17", "placed_start": BLOCK_TEST[0] - 695, "placed_end": BLOCK_TEST[0] - 95}, True),
        ({"placed_contig": "chr21", "placed_start": 0, "placed_end": 600}, True),
        ({"placed_contig": "chr21"}, True),  # somewhere on it
        ({"placed_contig": "chr8"}, False),
    ],
)
def test_a_corpus_window_placed_in_a_holdout_is_found(tmp_path, place, found):
    windows = corpus("mrna_evo2", [simulate(77, 600).decode()], strand="+", **place)
    sources = make_sources(corpus=corpora() | {"mrna_evo2": windows}, policy=UNBUFFERED)
    assert failed(write_package(tmp_path, sources).checks) == ({"no_holdout_corpus_row_in_train"} if found else set())


def test_the_flank_of_a_window_of_the_other_strand_lies_on_its_left(tmp_path):
    start = BLOCK_TEST[1] + 95
    place = {"placed_contig": "chr17", "placed_start": start, "placed_end": start + 600, "strand": "-"}
    windows = corpus("mrna_evo2", [simulate(77, 600).decode()], **place)
    sources = make_sources(corpus=corpora() | {"mrna_evo2": windows}, policy=UNBUFFERED)
    assert failed(write_package(tmp_path, sources).checks) == {"no_holdout_corpus_row_in_train"}


def test_a_listed_corpus_window_in_train_is_found(written):
    directory, sources = written
    from genolewm_assets.lewm.holdouts.schema import HOLDOUT_CORPUS

    (directory / "holdouts/corpus.parquet").unlink()
    listed = held_corpus(("mrna_evo2", "mrna_evo2.2"), ("mrna_evo2", "mrna_evo2.3"))
    write_package_table(directory / "holdouts/corpus.parquet", [listed], HOLDOUT_CORPUS)
    assert recheck(directory, sources) == {"no_holdout_corpus_row_in_train"}


@pytest.mark.parametrize("turn", [bytes.decode, reverse], ids=["copy", "reverse complement"])
def test_a_copy_of_a_test_window_in_train_is_found_on_either_strand(written, turn):
    import hashlib

    directory, sources = written
    sequence = turn(SEQUENCES["chr21"][96:1_296])
    digest = hashlib.sha256(sequence.encode())

    def replace_first(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        row = next(row for row in rows if row["origin"] == "mrna_evo2")
        row |= {"sequence": sequence, "window_bp": 1_200, "window_hash": digest.digest()}
        row["window_id"] = digest.hexdigest()[:32]
        return pa.Table.from_pylist(rows, schema=table.schema)

    leak(directory, TRAIN, replace_first)
    assert recheck(directory, sources) == {"splits_disjoint"}


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("sequence", lambda text: text[:-1] + ("A" if text[-1] != "A" else "C")),
        ("sequence", lambda text: text[:-1]),
        ("left_flank", lambda text: "N" + text[1:]),
        ("right_flank", lambda text: text[::-1]),
        ("right_flank", lambda text: text[:-1]),
        ("window_id", lambda text: text[::-1]),
        ("window_hash", lambda digest: digest[::-1]),
        ("start", lambda start: start + 6),
    ],
)
def test_a_row_that_is_not_the_genomes_is_found(written, column, change):
    directory, sources = written

    def alter(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        rows[3][column] = change(rows[3][column])
        return pa.Table.from_pylist(rows, schema=table.schema)

    leak(directory, TRAIN, alter)
    assert "sequences_right" in recheck(directory, sources)


def test_a_lost_window_and_a_lost_allele_are_found(written):
    directory, sources = written
    leak(directory, TRAIN, lambda table: table.slice(1))
    assert recheck(directory, sources) == {"counts_add_up"}
    assert "mapped_form_right" in failed(check_package(directory, read_package_info(directory), sources))
    leak(directory, "variants/train.parquet", lambda table: table.slice(1))
    info = read_package_info(directory)
    check = next(c for c in check_package(directory, info, sources) if c.name == "counts_add_up")
    assert len(check.figures["problems"]) == 2


def test_a_table_of_another_schema_is_found(written):
    directory, sources = written
    path = directory / "variants/validation.parquet"
    table = pq.read_table(path).drop_columns(["af"])
    pq.write_table(table, path)
    checks = check_package(directory, read_package_info(directory), sources)
    assert failed(checks) == set(PACKAGE_CHECKS)
    assert "variants/validation.parquet" in str(checks[0].figures["problems"])


def test_pointers_into_a_cache_of_other_windows_are_found(tmp_path):
    from genolewm_assets.store.artefacts.root import Root

    root = Root(tmp_path / "root")
    root.path.mkdir()
    sources = make_sources()
    ref = make_cache(root, "chr17", sources.windows["chr17"].num_rows)
    good = replace(sources, caches=(ref,))
    assert failed(write_package(tmp_path / "good", good).checks) == set()
    short = replace(sources, caches=(replace(ref, rows=ref.rows - 1),))
    assert failed(write_package(tmp_path / "short", short).checks) == {"caches_match_windows"}

    def shift(table: pa.Table) -> pa.Table:
        column = table.schema.get_field_index("cache_row")
        moved = pc.if_else(pc.equal(table["cache_row"], 0), 1, table["cache_row"])
        return table.set_column(column, table.schema.field("cache_row"), moved)

    leak(tmp_path / "good", TRAIN, shift)
    assert recheck(tmp_path / "good", good) == {"caches_match_windows"}


def test_a_role_in_which_two_holdouts_disagree_is_settled_before_the_check(tmp_path):
    both = intervals(
        ("holdout-chr", "test", "chr21", 0, LENGTHS["chr21"]),
        ("holdout-clinvar", "validation", "chr21", 2_000, 5_000),
        ("holdout-haplotypes", "validation", "chr17", 3_000, 3_100),
    )
    listed = held_alleles(("holdout-temporal", "validation", alleles("chr21", [3_000])[0]))
    sources = make_sources(intervals=both, alleles=listed)
    report = write_package(tmp_path, sources)
    assert failed(report.checks) == set()
    assert report.counts["validation.holdout-clinvar.windows"] == 0
    assert report.counts["validation.holdout-clinvar.clinvar_alleles"] == 0


spans = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda t: (t[0], t[0] + t[1])), max_size=8)


@given(spans, spans)
def test_held_intervals_are_met_as_a_double_loop_meets_them(ours, held):
    known = HeldIntervals(("chr1", HeldInterval(*one)) for one in held)
    for start, end in ours:
        met = [(a, b) for a, b in held if a < end and b > start]
        assert known.meet("chr1", start, end) is bool(met)
        assert not known.meet("chr2", start, end)
        if met:
            first = known.first_met("chr1", start, end)
            assert (first["held_start"], first["held_end"]) == min(met)


def test_alleles_are_compared_in_little_memory(written):
    directory, _ = written
    n = 25_000
    for path, schema in (("variants/train.parquet", PACKAGE_VARIANTS), ("holdouts/alleles.parquet", HOLDOUT_ALLELES)):
        one = pq.read_table(directory / path).slice(0, 1).to_pylist() * n
        first = 1 if schema is PACKAGE_VARIANTS else 1_000_000
        rows = [row | {"pos": first + i} for i, row in enumerate(one)]
        (directory / path).unlink()
        write_package_table(directory / path, [pa.Table.from_pylist(rows, schema=schema.arrow)], schema)
    tracemalloc.start()
    try:
        found = check_no_allele(directory)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found.figures["alleles"], found.figures["held_out_alleles"], found.figures["listed"]) == (n, n, 0)
    assert peak < 9_000_000, f"{peak:,} bytes"
