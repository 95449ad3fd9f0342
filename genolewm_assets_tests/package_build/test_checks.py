from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from genolewm_assets.genome import EVALUATION, Split
from genolewm_assets.package_build import checks
from genolewm_assets.package_build.checks import PACKAGE_CHECKS, check_package
from genolewm_assets.package_build.sources import PackageSources
from genolewm_assets.package_build.writer import write_package
from genolewm_assets.packages.files import write_package_table
from genolewm_assets.packages.info import read_package_info
from genolewm_assets.packages.reader import Package
from genolewm_assets.packages.schema import PACKAGE_VARIANTS, PACKAGE_WINDOWS
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
    intervals,
    make_cache,
    make_sources,
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


def test_training_windows_are_compared_in_pieces(written, monkeypatch):
    directory, sources = written
    windows, read = Package.windows, set[Split]()
    monkeypatch.setattr(
        Package, "windows", lambda package, split, *more: (read.add(split), windows(package, split, *more))[1]
    )
    monkeypatch.setattr(checks, "_BATCHES_AT_ONCE", 1)
    assert recheck(directory, sources) == set()
    assert read == set(EVALUATION)


@pytest.mark.parametrize("row", [0, -1])
def test_a_test_window_in_train_is_found(written, row):
    directory, sources = written
    window = pq.read_table(directory / TEST).to_pylist()[row]
    leaked = as_train(pa.Table.from_pylist([window], schema=PACKAGE_WINDOWS.arrow))
    leak(directory, TRAIN, lambda table: pa.concat_tables([table, leaked]))
    # The last test window is a temporal one, which may be trained on, but then as often as it came.
    temporal = window["holdout"] == "holdout-temporal"
    expected = {"counts_add_up"} if temporal else {"splits_disjoint", "counts_add_up"}
    assert recheck(directory, sources) == expected


def test_an_evaluated_allele_in_train_is_found(written):
    directory, sources = written
    for holdout in ("holdout-haplotypes", "holdout-temporal"):
        variants = pq.read_table(directory / "variants/test.parquet").to_pylist()
        variant = next(v for v in variants if v["holdout"] == holdout)
        original = (directory / "variants/train.parquet").read_bytes()
        leaked = as_train(pa.Table.from_pylist([variant], schema=PACKAGE_VARIANTS.arrow))
        leak(directory, "variants/train.parquet", lambda table, extra=leaked: pa.concat_tables([table, extra]))
        assert recheck(directory, sources) == {"splits_disjoint", "counts_add_up"}
        (directory / "variants/train.parquet").write_bytes(original)


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ({"placed_start": BLOCK_TEST[1], "placed_end": BLOCK_TEST[1] + 600}, False),
        ({"placed_start": BLOCK_TEST[1] - 1, "placed_end": BLOCK_TEST[1] + 600}, True),
        ({"placed_start": BLOCK_TEST[0] - 696, "placed_end": BLOCK_TEST[0] - 96}, False),
        ({"placed_start": BLOCK_TEST[0] - 695, "placed_end": BLOCK_TEST[0] - 95}, True),
        # The flank of a window of the other strand lies on its left.
        ({"placed_start": BLOCK_TEST[1] + 95, "placed_end": BLOCK_TEST[1] + 695, "strand": "-"}, True),
        ({"placed_start": BLOCK_TEST[1] + 96, "placed_end": BLOCK_TEST[1] + 696, "strand": "-"}, False),
    ],
)
def test_a_corpus_window_in_a_held_out_interval_is_found(tmp_path, place, found):
    placed = {"strand": "+", "placed_contig": "chr17", **place}
    windows = corpus("mrna_evo2", [simulate(77, 600).decode()], **placed)
    sources = make_sources(corpus=corpora() | {"mrna_evo2": windows}, policy=UNBUFFERED)
    assert failed(write_package(tmp_path, sources).checks) == ({"splits_disjoint"} if found else set())


def test_a_copy_of_a_test_window_in_train_is_found(written):
    directory, sources = written
    sequence = SEQUENCES["chr21"][96:1_296].decode()
    digest = hashlib.sha256(sequence.encode())

    def replace_first(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        row = next(row for row in rows if row["origin"] == "mrna_evo2")
        row |= {"sequence": sequence, "window_bp": 1_200, "window_hash": digest.digest()}
        row["window_id"] = digest.hexdigest()[:32]
        return pa.Table.from_pylist(rows, schema=table.schema)

    leak(directory, TRAIN, replace_first)
    assert recheck(directory, sources) == {"splits_disjoint"}


def test_a_bench_that_differs_from_its_counts_is_found(written):
    directory, sources = written

    def unstated(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        next(row for row in rows if row["scoring"] == "scored")["scoring"] = "in_no_window"
        return pa.Table.from_pylist(rows, schema=table.schema)

    leak(directory, "variants/test.parquet", unstated)
    assert recheck(directory, sources) == {"counts_add_up"}


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("sequence", lambda text: text[:-1] + ("A" if text[-1] != "A" else "C")),
        ("sequence", lambda text: text[:-1]),
        ("left_flank", lambda text: "N" + text[1:]),
        ("right_flank", lambda text: text[:-1]),
        ("window_id", lambda text: text[::-1]),
        ("window_hash", lambda digest: digest[::-1]),
    ],
)
def test_a_row_that_is_not_as_stated_is_found(written, column, change):
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
    pq.write_table(pq.read_table(path).drop_columns(["af"]), path)
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
    report = write_package(tmp_path, make_sources(intervals=both, alleles=listed))
    assert failed(report.checks) == set()
    assert report.counts["validation.holdout-clinvar.windows"] == 0
    assert report.counts["validation.holdout-clinvar.clinvar_alleles"] == 0
