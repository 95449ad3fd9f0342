from __future__ import annotations

import weakref
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from genolewm_assets.defs.assets.release_inputs import TablesOnDemand
from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import Split
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets.package_build import writer
from genolewm_assets.package_build.rows import SHARD_COLUMNS
from genolewm_assets.package_build.writer import write_package
from genolewm_assets.packages import files as package_files
from genolewm_assets.packages.info import read_package_info
from genolewm_assets.packages.mix import PackageMix, Shares
from genolewm_assets.packages.schema import VariantSource
from genolewm_assets.sources.reference.fasta import ContigPieces
from genolewm_assets_tests.worlds.lewm.package_world import (
    RELEASE,
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
        files[name] = tmp_path / f"{name}.parquet"
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
    assert report.rows == on_disk == {entry.path: entry.rows for entry in info.files if entry.rows is not None}
    arrays = {str(path.relative_to(tmp_path)) for path in (tmp_path / "arrays").rglob("*") if path.is_file()}
    assert {entry.path for entry in info.files} == {*on_disk, *arrays}
    assert {f"arrays/{split}/index.json" for split in Split} < arrays
    assert info.counts == report.counts
    assert info.policy["validation_windows"] == 10
    assert info.splits["train"].windows == sum(n for path, n in on_disk.items() if path.startswith("data/train"))
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == {
        *on_disk,
        *arrays,
        "package.json",
        "README.md",
        "croissant.json",
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


def test_training_knows_nothing_after_t0_where_that_is_asked_for(tmp_path):
    earlier = {name: clinvar(name, "VUS") for name in ("chr17", "chr20", "chr21")}
    policy = HoldoutPolicy(validation_windows=10, temporal=("2024-01-07", RELEASE))
    report = write_package(tmp_path, make_sources(clinvar_t0=earlier, policy=policy, without_alleles=True))
    assert read_package_info(tmp_path).knowledge == "T0"
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
        for row in pq.read_table(tmp_path / f"variants/{split}.parquet").to_pylist():
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
        mix=PackageMix(Shares({"reference": 1.0}, {"synthetic_snv": 0.75, "synthetic_indel": 0.25})),
    )
    report = write_package(tmp_path, bare)
    assert failed(report.checks) == set()
    assert report.counts["windows.reference.train"] == report.counts["windows.reference.in"] == 64
    assert read_package_info(tmp_path).splits["test"].windows == 0


def test_sources_read_on_demand_give_the_same_bytes(tmp_path):
    sources, shards = make_sources(), {}
    for source, tables in ((VariantSource.GNOMAD, sources.gnomad), (VariantSource.CLINVAR, sources.clinvar)):
        files = {name: tmp_path / f"{source}.{name}.parquet" for name in tables}
        for name, table in tables.items():
            pq.write_table(table, files[name])
        shards[str(source)] = TablesOnDemand(files, SHARD_COLUMNS[source])
    write_package(tmp_path / "one", sources)
    pieces = {name: ContigPieces(len(bases), partial(_slice, bases), piece_bp=500) for name, bases in SEQUENCES.items()}
    write_package(tmp_path / "two", make_sources(reference=pieces.__getitem__, **shards))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def _slice(bases: bytes, start: int, end: int) -> bytes:
    return bases[start:end]


def test_controls_and_alleles_are_written_as_they_are_made(tmp_path, monkeypatch):
    made_so_far: list[weakref.ref[pa.Table]] = []
    most = 0

    def counted(make):
        def made(*args, **kwargs):
            nonlocal most
            table = make(*args, **kwargs)
            made_so_far.append(weakref.ref(table))
            most = max(most, sum(each() is not None for each in made_so_far))
            return table

        return made

    for name in ("control_rows", "sort_variants"):
        monkeypatch.setattr(writer, name, counted(getattr(writer, name)))
    monkeypatch.setattr(writer, "GROUP_ROWS", 1)
    write_package(tmp_path, make_sources())
    assert len(made_so_far) > 20
    assert most <= 2
