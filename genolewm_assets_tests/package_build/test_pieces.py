"""A package that refers to published tables of windows, beside one that has the same windows in its own files."""

from __future__ import annotations

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from genolewm_assets.audit.planting.plant import plant_leaks
from genolewm_assets.audit.reading.package_files import open_files, table_of
from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import Split
from genolewm_assets.memory_mapped import MappedWindows, check_mapped, find_mapped_faults, open_mapped, window_writer
from genolewm_assets.package_build.epoch_checks import plan_of_epoch
from genolewm_assets.packages import epoch_plan
from genolewm_assets.packages.diff import diff_packages
from genolewm_assets.packages.reader import Package, open_tables, verify_package
from genolewm_assets.packages.schema import PACKAGE_WINDOWS
from genolewm_assets.store.artefacts import FindingKind, Root, collect_garbage, read_manifest
from genolewm_assets.store.files import FileDigests
from genolewm_assets_tests.referees.bcftools import write_fasta
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm import package_world as world


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Root:
    made = Root(tmp_path_factory.mktemp("pieces") / "root")
    made.claim("tiny", world.GENOME_DIGEST)
    return made


@pytest.fixture(scope="module")
def linked(root) -> Package:
    return open_tables(world.publish(root, world.with_pieces(root, world.make_sources())).directory)


@pytest.fixture(scope="module")
def copied(tmp_path_factory, root) -> Package:
    apart = Root(tmp_path_factory.mktemp("own") / "root")
    apart.claim("tiny", world.GENOME_DIGEST)
    sources = world.make_sources()
    return open_tables(world.publish(apart, replace(sources, caches=world.make_caches(apart, sources))).directory)


@pytest.fixture
def copy(linked, tmp_path) -> Path:
    """A copy of the package under its own name, with files of its own."""
    return Path(shutil.copytree(linked.directory, tmp_path / "copy" / linked.directory.name))


def in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in ("holdout", "origin", "contig", "start", "record_id")])


def test_both_have_the_same_rows_to_the_last_column(linked, copied) -> None:
    assert not linked.window_files(Split.TRAIN)
    assert not list(linked.directory.glob("data/train-*"))
    for split in Split:
        mine, theirs = (in_order(package.windows(split)) for package in (linked, copied))
        assert mine.num_rows > 10
        assert mine.schema == PACKAGE_WINDOWS.arrow
        for name in mine.column_names:
            assert mine[name].to_pylist() == theirs[name].to_pylist(), (split, name)
    assert linked.info.counts == copied.info.counts
    assert linked.info.splits["train"].windows == copied.info.splits["train"].windows
    assert linked.info.epoch == copied.info.epoch


@each_row("column", PACKAGE_WINDOWS.columns)
def test_one_column_is_that_of_all(linked, column) -> None:
    alone = pa.Table.from_batches(linked.window_batches(Split.TRAIN, [column]))
    assert alone[column].to_pylist() == linked.windows(Split.TRAIN)[column].to_pylist()


def test_trainers_map_the_same_windows(linked, copied) -> None:
    mine, theirs = (MappedWindows(open_mapped(package, Split.TRAIN)) for package in (linked, copied))
    assert len(mine.split.index.pieces) > 2
    assert mine.split.column("windows/bases").size == 0
    records = [sorted(str(windows.record(row)) for row in range(len(windows))) for windows in (mine, theirs)]
    assert records[0] == records[1]
    rows = np.random.default_rng(0).permutation(len(mine))
    packed = mine.packed(rows)
    for at, row in enumerate(rows.tolist()):
        one = mine.packed(np.array([row]))
        end = packed.first[at] + len(one.packed)
        assert packed.packed[packed.first[at] : end].tobytes() == one.packed.tobytes()
    spelled = [sorted(zip(w.window_ids, w.packed(np.arange(len(w))).spells_held, strict=True)) for w in (mine, theirs)]
    assert spelled[0] == spelled[1]


def test_parts_of_many_windows_give_the_same_bytes(linked, monkeypatch) -> None:
    monkeypatch.setattr(window_writer, "_AT_ONCE", 3)
    assert check_mapped(linked.directory, linked.info).passed
    plan, windows = plan_of_epoch(linked), open_mapped(linked, Split.TRAIN).index.n_windows
    monkeypatch.setattr(epoch_plan, "_AT_ONCE", 3)
    assert windows > 3
    assert plan_of_epoch(linked) == plan == linked.info.epoch


def test_few_files_are_open_at_once(linked, monkeypatch) -> None:
    monkeypatch.setattr("genolewm_assets.memory_mapped.split._MOST_OPEN", 2)
    windows = MappedWindows(open_mapped(linked, Split.TRAIN))
    for row in np.random.default_rng(1).permutation(len(windows)).tolist():
        windows.packed(np.array([row]))
        assert len(windows.split._descriptors) <= 2


def test_the_audit_reads_the_same_rows(linked) -> None:
    theirs = linked.windows(Split.TRAIN)
    columns = list(PACKAGE_WINDOWS.columns)
    mine = table_of(open_files(linked.directory).windows("train", columns), columns)
    for name in columns:
        assert mine[name].to_pylist() == theirs[name].to_pylist(), name
        alone = table_of(open_files(linked.directory).windows("train", [name]), [name])
        assert alone[name].to_pylist() == theirs[name].to_pylist(), name


def test_files_are_shared_and_known(root, linked) -> None:
    digests = FileDigests(linked.directory)
    for ref in linked.info.pieces:
        for name in ("windows.parquet", "bases.npy"):
            path = f"pieces/{ref.source}/{name}"
            assert (linked.directory / path).stat().st_nlink >= 2
            assert digests.known(path), path
    # The pieces are still known by what was recorded of them, too: whoever reads them hashes nothing.
    contigs = [ref.source for ref in linked.info.pieces if ref.origin == "reference"]
    assert contigs
    for contig in contigs:
        assert FileDigests((root.path / "windows/tiny" / contig).resolve()).known("windows.parquet")


def test_a_second_package_leaves_the_first_one_known(root, linked) -> None:
    second = world.publish(root, world.with_pieces(root, world.make_sources(release="2025-01-12"))).directory
    for directory in (second, linked.directory):
        assert FileDigests(directory).known("pieces/chr17/windows.parquet")
        assert not verify_package(directory)
    assert diff_packages(linked.directory, second).tables[0].is_empty


def test_a_package_outlives_its_pieces(root, linked, tmp_path) -> None:
    other = Root(Path(shutil.copytree(root.path, tmp_path / "root", symlinks=True)))
    for piece in (*(other.path / "windows").iterdir(), *(other.path / "corpus").iterdir()):
        piece.unlink() if piece.is_symlink() else shutil.rmtree(piece)
    moved = other.path / linked.directory.relative_to(root.path)
    assert not verify_package(moved)
    assert open_tables(moved).windows(Split.TRAIN).equals(linked.windows(Split.TRAIN))


def test_garbage_collection_takes_no_piece_that_a_package_names(root, linked) -> None:
    removed = [each.path for each in collect_garbage(root, dry_run=True)]
    assert not [path for path in removed if path.startswith(("windows/", "corpus/"))]


@each_row("number", [errno.EXDEV, errno.EPERM, errno.EMLINK])
def test_where_no_link_can_be_made_the_files_are_copied(tmp_path_factory, monkeypatch, linked, number) -> None:
    link = os.link

    def refuse(source: Path, target: Path) -> None:
        if "pieces" in Path(target).parts:
            raise OSError(number, "no link")
        link(source, target)

    made = Root(tmp_path_factory.mktemp("copied") / "root")
    made.claim("tiny", world.GENOME_DIGEST)
    sources = world.with_pieces(made, world.make_sources())
    monkeypatch.setattr(os, "link", refuse)
    published = world.publish(made, sources)
    assert published.run_facts == {"pieces_copied": len(linked.info.pieces), "pieces_linked": 0}
    assert published.manifest.sha256 == read_manifest(linked.directory).sha256
    assert (published.directory / "pieces/chr17/bases.npy").stat().st_nlink == 1


@each_row("name", ["windows.parquet", "bases.npy", "trains.npy"])
def test_a_flipped_byte_is_found(copy, linked, name) -> None:
    path = copy / "pieces" / linked.info.pieces[0].source / name
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    found = [finding.file for finding in verify_package(copy) if finding.kind is FindingKind.CORRUPT]
    assert found == [f"pieces/{linked.info.pieces[0].source}/{name}"]
    with pytest.raises(CorruptResourceError):
        open_tables(copy, allow_unaudited=True)
    path.write_bytes(whole)


def test_rows_that_train_are_compared_with_the_record(copy, linked) -> None:
    ref = linked.info.pieces[0]
    path = copy / "pieces" / ref.source / "trains.npy"
    trains = np.load(path)
    np.save(path, ~trains)
    package = Package(copy, linked.info, {})
    with pytest.raises(CorruptResourceError, match="is not the piece that the package states"):
        list(package.window_batches(Split.TRAIN, ["start"]))


def test_arrays_of_other_rows_are_found(copy, linked) -> None:
    assert check_mapped(copy, linked.info).passed
    ref = linked.info.pieces[0]
    path = copy / "pieces" / ref.source / "trains.npy"
    trains = np.load(path)
    on, off = np.flatnonzero(trains)[0], np.flatnonzero(~trains)[0]
    trains[[on, off]] = trains[[off, on]]
    np.save(path, trains)
    assert find_mapped_faults(copy)


def test_leaks_are_planted_beside_the_pieces(linked, tmp_path) -> None:
    fasta = write_fasta(tmp_path / "genome.fa", world.SEQUENCES)
    planted, failed = plant_leaks(linked.directory, tmp_path / "out", fasta, ["duplicate", "alias_contig"])
    assert len(planted) == 2
    assert not failed
    package = open_tables(tmp_path / "out/package", allow_unaudited=True)
    n = linked.info.splits["train"].windows
    assert package.windows(Split.TRAIN, ["origin"]).num_rows == package.info.splits["train"].windows == n + 2
    assert len(MappedWindows(open_mapped(package, Split.TRAIN))) == n + 2
