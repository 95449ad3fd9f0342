from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import Label, Split
from genolewm_assets.package_build.writer import write_package
from genolewm_assets.packages import label_diff
from genolewm_assets.packages.diff import PackageDiff, compare_packages, diff_packages
from genolewm_assets.packages.info import read_package_info
from genolewm_assets.packages.reader import Package
from genolewm_assets.packages.schema import PACKAGE_VARIANTS, VariantSource
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.tables import write_table
from genolewm_assets.variants.schema import CLINVAR_VARIANTS
from genolewm_assets_tests.worlds.lewm.package_world import (
    GENOME_DIGEST,
    clinvar,
    corpora,
    corpus,
    default_intervals,
    intervals,
    make_sources,
    publish,
    simulate,
    temporal_alleles,
)


def compare(*folders: Path) -> PackageDiff:
    """Compare packages that are written and not published."""
    old, new = (Package(folder, read_package_info(folder), {}) for folder in folders)
    return compare_packages(old, new, list_alleles=True)


@pytest.fixture
def before(tmp_path):
    write_package(tmp_path / "before", make_sources())
    return tmp_path / "before"


def figures(diff, table):
    found = next(t for t in diff.tables if t.table == table)
    return found.added, found.removed, found.changed


def test_labels_and_alleles_of_a_new_release(before, tmp_path):
    rows = clinvar("chr17").to_pylist()
    assert [row["label"] for row in rows[4:6]] == ["VUS", "OTHER"]
    rows[4]["label"] = rows[10]["label"] = "P"  # both VUS, both trained on
    gone = rows.pop(0)
    new = gone | {"alt": next(b for b in "ACGT" if b not in (gone["ref"], gone["alt"])), "label": "B"}
    changed = pa.Table.from_pylist([new, *rows], schema=CLINVAR_VARIANTS.arrow)
    others = {name: clinvar(name) for name in ("chr20", "chr21")}
    write_package(tmp_path / "after", make_sources(release="2025-02-05", clinvar={"chr17": changed, **others}))
    diff = compare(before, tmp_path / "after")
    assert figures(diff, "alleles, train") == (1, 1, 2)
    assert figures(diff, "alleles, test") == (0, 0, 0)
    assert figures(diff, "windows, train") == (0, 0, 0)
    assert diff.relabelled == {"VUS -> P": 2}
    assert diff.settings["release"] == ("2025-01-05", "2025-02-05")
    assert diff.moved == {}
    text = diff.to_text()
    assert "relabelled: VUS -> P  2" in text
    assert "release: 2025-01-05 -> 2025-02-05" in text
    assert json.loads(json.dumps(diff.as_dict()))["relabelled"] == {"VUS -> P": 2}


def test_windows_and_alleles_that_move_from_training_to_a_holdout(before, tmp_path):
    more = pa.concat_tables([default_intervals(), intervals(("holdout-clinvar", "test", "chr17", 10_000, 11_000))])
    write_package(tmp_path / "after", make_sources(intervals=more))
    diff = compare(before, tmp_path / "after")
    added, removed, _ = figures(diff, "windows, test")
    assert (added > 0, removed) == (True, 0)
    # The buffer takes those beside them out of training, and into no holdout.
    _, beside, _ = figures(diff, "windows, train")
    assert beside > added
    assert figures(diff, "windows, train") == (0, beside, 0)
    assert diff.moved["windows, train -> test"] == added
    assert diff.moved["alleles, train -> test"] == figures(diff, "alleles, test")[0] > 0
    assert figures(diff, "holdouts, intervals") == (1, 0, 0)
    back = compare(tmp_path / "after", before)
    assert back.moved["windows, test -> train"] == added
    assert figures(back, "windows, test") == (0, added, 0)


def test_a_corpus_window_with_other_bases_is_a_changed_one(before, tmp_path):
    tables = corpora()
    sequences = tables["mrna_evo2"]["sequence"].to_pylist()
    sequences[0] = simulate(5, 600).decode()
    tables["mrna_evo2"] = corpus("mrna_evo2", sequences)
    write_package(tmp_path / "after", make_sources(corpus=tables))
    assert figures(compare(before, tmp_path / "after"), "windows, train") == (0, 0, 1)


def bench_of(package, split):
    """Return label, stars and outcome of the alleles to score, by holdout and key, from the file."""
    rows = pq.read_table(package / f"variants/{split}.parquet").to_pylist()
    found = {}
    for row in (row for row in rows if row["scoring"] is not None):
        key = row["chrom"], row["pos"], row["ref"], row["alt"]
        found.setdefault(row["holdout"], {})[key] = row["label"], row["stars"], row["scoring"]
    return found


def test_benches_of_all_holdouts_are_compared(before, tmp_path):
    rows = clinvar("chr21").to_pylist()
    decided = [row for row in rows if row["label"] in {"P", "LP"} and row["stars"] >= 1]
    decided[0]["label"], decided[1]["stars"] = "B", 5 - decided[1]["stars"]
    decided[2]["label"], decided[3]["stars"] = "VUS", 0
    shards = {name: clinvar(name) for name in ("chr17", "chr20")}
    shards["chr21"] = pa.Table.from_pylist(rows, schema=CLINVAR_VARIANTS.arrow)
    write_package(tmp_path / "after", make_sources(clinvar=shards))
    diff = compare(before, tmp_path / "after")
    benches = {(bench.holdout, bench.split): bench for bench in diff.benches}
    wanted = {}
    for split in ("validation", "test"):
        old, new = bench_of(before, split), bench_of(tmp_path / "after", split)
        for holdout in {*old, *new}:
            a, b = old.get(holdout, {}), new.get(holdout, {})
            changed = sum(a[key] != b[key] for key in a.keys() & b.keys())
            wanted[holdout, split] = (len(b), len(b.keys() - a.keys()), len(a.keys() - b.keys()), changed)
    assert {key: (b.alleles, b.added, b.removed, b.changed) for key, b in benches.items()} == wanted
    assert wanted["holdout-chr", "test"][1:] == (0, 2, 2)
    assert benches["holdout-chr", "test"].relabelled == 1
    assert benches["holdout-chr", "test"].units == ("chr21",)
    assert [key for key, bench in benches.items() if not bench.is_equal] == [("holdout-chr", "test")]
    assert "bench holdout-chr, test: differs, 0 added, 2 removed, 2 changed, in chr21" in diff.to_text()
    assert "holdout-haplotypes" not in {bench.holdout for bench in diff.benches}


def test_a_unit_is_named_for_alleles_held_out_by_key(before, tmp_path):
    listed = temporal_alleles()
    fewer = listed.slice(1)
    gone = listed.slice(0, 1).to_pylist()[0]
    write_package(tmp_path / "after", make_sources(alleles=fewer))
    diff = compare(before, tmp_path / "after")
    (bench,) = [bench for bench in diff.benches if not bench.is_equal]
    wanted = (gone["holdout"], gone["role"], 1, (gone["unit"],))
    assert (bench.holdout, bench.split, bench.removed, bench.units) == wanted
    # Its windows showed it in the bench and are in training as before: they left one split and came to none.
    assert figures(diff, f"windows, {gone['role']}")[1] > 0
    assert figures(diff, "windows, train") == (0, 0, 0)
    assert [name for name in diff.moved if name.startswith("windows")] == []


ALLELES = st.tuples(
    *map(st.sampled_from, (["chr1", "chr2"], [5, 9], ["A", "AC"], ["G", "GT"], list(VariantSource))),
    *map(st.sampled_from, ([None, "holdout-chr", "holdout-clinvar"], [None, *Label], [None, 0, 4])),
)
PACKAGES = st.fixed_dictionaries(dict.fromkeys(map(str, Split), st.lists(ALLELES, max_size=6)))


@given(pair=st.tuples(PACKAGES, PACKAGES))
@settings(max_examples=40)
def test_touched_alleles_are_those_whose_rows_differ(pair):
    """Row groups hold several contigs, rows may be there twice, and a null is no value."""
    names = ["chrom", "pos", "ref", "alt", "source", "holdout", "label", "stars"]
    with TemporaryDirectory() as folder:
        for at, package in enumerate(pair):
            for split, rows in package.items():
                empty = dict.fromkeys(PACKAGE_VARIANTS.columns) | {"gene_ids": [], "role": split}
                full = [empty | dict(zip(names, row, strict=True)) for row in rows]
                table = pa.Table.from_pylist(full, schema=PACKAGE_VARIANTS.arrow)
                write_table([table], Path(folder, f"{at}/variants/{split}.parquet"), PACKAGE_VARIANTS)
        opened = [SimpleNamespace(directory=Path(folder, str(at))) for at in range(2)]
        found = {contig: label_diff.touched_alleles(*opened, contig) for contig in ("chr1", "chr2")}
    whole = [{(row[:5], split, row[5:]) for split, rows in one.items() for row in rows} for one in pair]
    touched = {key for key, *_ in whole[0] ^ whole[1]}
    for contig, tables in found.items():
        for one, table in zip(pair, tables, strict=True):
            wanted = [
                (split, *row) for split, rows in one.items() for row in rows if row[0] == contig and row[:5] in touched
            ]
            rows = zip(*(table[name].to_pylist() for name in ("split", *names)), strict=True)
            assert Counter(rows) == Counter(wanted)


def test_an_altered_package_is_not_compared(tmp_path):
    root = Root(tmp_path)
    root.claim("tiny", GENOME_DIGEST)
    package = publish(root, make_sources()).directory
    assert diff_packages(package, package).is_empty
    altered = shutil.copytree(package, tmp_path / "altered")
    (altered / "README.md").write_text("?")
    with pytest.raises(CorruptResourceError, match=r"README\.md"):
        diff_packages(package, altered)


NUMBERS = st.integers(0, 3) | st.sampled_from([-(1 << 62), 1 << 62, None])
ROWS = st.lists(st.tuples(st.sampled_from(["A", "AC", "", None]), NUMBERS, st.none() | st.booleans()))


@given(tables=st.lists(ROWS, min_size=1, max_size=3), most=st.sampled_from([4, 20, 1 << 63]))
def test_rows_of_any_table_have_one_number_if_and_only_if_they_are_equal(tables, most):
    schema = pa.schema([("ref", pa.string()), ("pos", pa.int64()), ("alone", pa.bool_())])
    made = [pa.table([pa.array(column) for column in zip(*rows, strict=True)] or [[]] * 3, schema) for rows in tables]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(label_diff, "_MOST_CODES", most)
        codes = label_diff.row_codes(made, schema.names)
    assert [len(each) for each in codes] == list(map(len, tables))
    pairs = {
        pair
        for rows, numbers in zip(tables, codes, strict=True)
        for pair in zip(rows, numbers.to_pylist(), strict=True)
    }
    assert len(pairs) == len({row for row, _ in pairs}) == len({number for _, number in pairs})
