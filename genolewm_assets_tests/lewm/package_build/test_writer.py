from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import Split
from genolewm_assets.lewm.package_build.writer import write_package
from genolewm_assets.lewm.packages import files as package_files
from genolewm_assets.lewm.packages.info import read_package_info
from genolewm_assets_tests.worlds.lewm.package_world import (
    SEQUENCES,
    alleles,
    clinvar,
    corpora,
    failed,
    held_alleles,
    make_sources,
)


def contents(directory: Path) -> dict[str, bytes]:
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def test_same_in_same_out_wherever_and_however_the_corpus_is_read(tmp_path):
    write_package(tmp_path / "one", make_sources())
    files = {}
    for name, table in corpora().items():
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=1)
        files[name] = ds.dataset(tmp_path / f"{name}.parquet")
    write_package(tmp_path / "a" / "two", make_sources(corpus=files))
    assert contents(tmp_path / "one") == contents(tmp_path / "a" / "two")


def test_several_files_per_split_hold_the_same_rows(tmp_path, monkeypatch):
    write_package(tmp_path / "one", make_sources())
    monkeypatch.setattr(package_files, "SHARD_ROWS", 10)
    report = write_package(tmp_path / "many", make_sources())
    assert failed(report.checks) == set()
    names = sorted(name for name in report.rows if name.startswith("data/train"))
    assert len(names) == 6
    assert names[0] == "data/train-00000-of-00006.parquet"
    one = pq.read_table(tmp_path / "one" / "data" / "train-00000-of-00001.parquet")
    many = pa.concat_tables([pq.read_table(tmp_path / "many" / name) for name in names])
    assert one.to_pylist() == many.to_pylist()


def test_report_and_description_say_what_lies_in_the_files(tmp_path):
    report = write_package(tmp_path, make_sources())
    info = read_package_info(tmp_path)
    on_disk = {
        str(path.relative_to(tmp_path)): pq.ParquetFile(path).metadata.num_rows for path in tmp_path.rglob("*.parquet")
    }
    assert report.rows == on_disk == {entry.path: entry.rows for entry in info.files}
    assert info.counts == report.counts
    assert info.policy["validation_windows"] == 10
    assert info.splits["train"].windows == sum(n for path, n in on_disk.items() if path.startswith("data/train"))
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == {
        *on_disk,
        "package.json",
        "README.md",
        "SHA256SUMS",
    }


def test_the_splits_of_alleles(tmp_path):
    write_package(tmp_path, make_sources())
    train, validation, test = (pq.read_table(tmp_path / f"variants/{split}.parquet").to_pylist() for split in Split)
    assert {row["chrom"] for row in train} == {"chr17"}
    assert {(row["holdout"], row["chrom"]) for row in test} == {
        ("holdout-chr", "chr21"),
        ("holdout-haplotypes", "chr17"),
        ("holdout-temporal", "chr17"),
    }
    temporal = [row for row in (*validation, *test) if row["holdout"] == "holdout-temporal"]
    assert [(row["role"], row["pos"]) for row in temporal] == [
        ("validation", clinvar("chr17")["pos"][3].as_py()),
        ("test", clinvar("chr17")["pos"][30].as_py()),
    ]
    assert not {row["pos"] for row in temporal} & {row["pos"] for row in train if row["source"] == "clinvar"}


def test_training_uses_the_labels_of_the_earlier_release(tmp_path):
    earlier = {name: clinvar(name, "VUS") for name in ("chr17", "chr20", "chr21")}
    report = write_package(tmp_path, make_sources(clinvar_earlier=earlier))
    assert failed(report.checks) == set()
    labels = {
        split: {row["label"] for row in pq.read_table(tmp_path / f"variants/{split}.parquet").to_pylist()}
        for split in Split
    }
    assert labels[Split.TRAIN] == {"VUS", None}
    assert labels[Split.VALIDATION] == labels[Split.TEST] | {None} == {"P", "LP", "B", "LB", "VUS", "OTHER", None}


def test_an_allele_in_several_holdouts_serves_each_and_test_wins(tmp_path):
    on_chr21 = alleles("chr21", [350], step=2)[0]
    on_chr20 = alleles("chr20", [350], step=2)[0]
    listed = held_alleles(
        ("holdout-temporal", "validation", on_chr21),
        ("holdout-temporal", "test", on_chr20),
        ("holdout-clinvar", "test", on_chr20),
    )
    write_package(tmp_path, make_sources(alleles=listed))
    found = {}
    for split in (Split.VALIDATION, Split.TEST):
        rows = pq.read_table(tmp_path / f"variants/{split}.parquet").to_pylist()
        for row in rows:
            if row["source"] == "clinvar" and row["pos"] == 351:
                found.setdefault(row["chrom"], set()).add((row["holdout"], str(split)))
    assert found == {
        "chr21": {("holdout-chr", "test")},
        "chr20": {("holdout-temporal", "test"), ("holdout-clinvar", "test")},
    }


def test_controls_stand_beside_validation_and_test_only(tmp_path):
    report = write_package(tmp_path, make_sources())
    assert "controls/train.parquet" not in report.rows
    for split in ("validation", "test"):
        controls = pq.read_table(tmp_path / f"controls/{split}.parquet")
        windows = pq.read_table(tmp_path / f"data/{split}-00000-of-00001.parquet")
        assert set(controls["source_window_id"].to_pylist()) <= set(windows["window_id"].to_pylist())
        for row in controls.to_pylist():
            assert row["sequence"] == SEQUENCES[row["contig"]][row["start"] : row["end"]].decode()
        per_holdout = pc.value_counts(controls["holdout"]).to_pylist()
        assert {row["values"]: row["counts"] for row in per_holdout} == {
            name: 5 * min(10, report.counts[f"{split}.{name}.windows"])
            for name in ("holdout-chr", "holdout-haplotypes", "holdout-temporal")
        }


def test_an_index_of_another_genome_is_refused(tmp_path):
    cut = {name: bases[: len(bases) // 2] for name, bases in SEQUENCES.items()}
    with pytest.raises(CorruptResourceError, match="a window with its flanks extends beyond its contig"):
        write_package(tmp_path / "cut", make_sources(reference=cut.__getitem__))
    turned = {name: bases[::-1] for name, bases in SEQUENCES.items()}
    sources = replace(make_sources(), reference=turned.__getitem__)
    assert failed(write_package(tmp_path / "turned", sources).checks) == {"sequences_right"}


def test_a_package_without_corpus_gnomad_or_holdouts(tmp_path):
    sources = make_sources()
    bare = replace(
        sources,
        corpus={},
        gnomad={},
        clinvar={},
        intervals=sources.intervals.slice(0, 0),
        alleles=sources.alleles.slice(0, 0),
        corpus_rows=sources.corpus_rows.slice(0, 0),
        mix={"eukaryote_generator": 1.0},
    )
    report = write_package(tmp_path, bare)
    assert failed(report.checks) == set()
    assert report.counts["windows.reference.train"] == report.counts["windows.reference.in"] == 64
    assert read_package_info(tmp_path).splits["test"].windows == 0
