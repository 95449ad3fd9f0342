from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import Split
from genolewm_assets.packages import files as package_files
from genolewm_assets.packages.files import WindowShardWriter, write_package_table
from genolewm_assets.packages.info import PackageInfo, SplitInfo, parse_package_info, read_package_info, split_digest
from genolewm_assets.packages.schema import PACKAGE_VARIANTS, PACKAGE_WINDOWS, CacheRef, PieceRef
from genolewm_assets.store.artefacts.manifest import FileEntry
from genolewm_assets.store.files.canonical_json import canonical_json
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.package_world import table

SHARDS = ("data/test-00000-of-00001", "data/train-00000-of-00002", "data/train-00001-of-00002")
PATHS = [f"{name}.parquet" for name in ("controls/test", *SHARDS, "variants/test", "variants/train")]
FILES = tuple(FileEntry(path, 10, f"{i:064x}", 1) for i, path in enumerate(PATHS))
INFO = PackageInfo(
    release="2025-01-05",
    genome_digest="a" * 64,
    margin_bp=256,
    caches=(CacheRef("chr17", "k", 3, "b" * 64, "c" * 64, "embeddings/k"),),
    policy={"contigs_test": ["chr21"], "clinvar_genes": None, "haplotype_fraction": 0.02},
    counts={"windows.reference.in": 3},
    splits={str(split): SplitInfo(1, 2, 3, "d" * 64) for split in Split},
    files=FILES,
)


def test_what_is_written_is_what_is_read(tmp_path):
    (tmp_path / "package.json").write_bytes(INFO.to_bytes())
    found = read_package_info(tmp_path)
    assert found == INFO
    assert found.caches[0] == INFO.caches[0]
    assert found.to_bytes() == INFO.to_bytes()


@each_row(
    ("change", "problem"),
    [
        ({"format_version": "1.0"}, r"expected genolewm\.package 5\.x, got genolewm\.package 1\.0"),
        ({"format": "other"}, "cannot be read by this code"),
        ({"margin_bp": "256"}, "margin_bp"),
        ({"release": None}, "release"),
        ({"caches": [{"source": "chr17"}]}, "caches"),
        ({"surprise": 1}, "surprise|canonical"),
    ],
)
def test_other_formats_and_wrong_types_are_refused(change, problem):
    document = json.loads(INFO.to_bytes()) | change
    with pytest.raises(CorruptResourceError, match=problem):
        parse_package_info(canonical_json(document, "test"), "package.json")


@each_row("raw", [b"", b"[]", b"{", b"\xff", json.dumps(json.loads(INFO.to_bytes())).encode()])
def test_anything_but_canonical_json_is_refused(raw):
    with pytest.raises(CorruptResourceError):
        parse_package_info(raw, "package.json")


def test_the_digest_of_a_split_depends_on_each_of_its_files_and_on_no_other():
    before = {split: split_digest(FILES, split) for split in Split}
    assert len(set(before.values())) == 3
    for i, entry in enumerate(FILES):
        changed = (*FILES[:i], replace(entry, sha256="f" * 64), *FILES[i + 1 :])
        owner = next(split for split in Split if f"/{split}" in entry.path)
        assert {split for split in Split if split_digest(changed, split) != before[split]} == {owner}


@pytest.mark.parametrize("source", ["chr17", "../../etc", ""])
def test_a_piece_whose_files_are_not_listed_is_refused(source):
    info = replace(INFO, pieces=(PieceRef(source, "reference", 3, 1, "e" * 64),))
    with pytest.raises(CorruptResourceError, match="names a piece whose files it does not list"):
        parse_package_info(info.to_bytes(), "package.json")


def test_window_files_of_a_split_in_order():
    assert INFO.split_files(Split.TRAIN) == FILES[2:4]


def rows(n: int, first: int = 0) -> pa.Table:
    same = {"origin": "reference", "placement_exact": True, "window_bp": 6, "frame": 0, "gc": 0.5, "sequence": "ACGTAC"}
    same |= {"left_flank": "A", "right_flank": "C", "role": "train", "frozen": True}
    made = [{"window_id": f"{i:032d}", "window_hash": i.to_bytes(32, "big"), **same} for i in range(first, first + n)]
    return table(made, PACKAGE_WINDOWS.arrow)


def write_pieces(folder, sizes):
    with WindowShardWriter(folder, Split.TRAIN, sum(sizes)) as writer:
        for number, size in enumerate(sizes):
            writer.write(rows(size, sum(sizes[:number])))
    return writer


@settings(max_examples=25)
@given(st.lists(st.integers(0, 9), max_size=8))
def test_shards_hold_every_row_once_in_order_and_differ_by_one_at_most(tmp_path_factory, sizes):
    folder, at_once, total = tmp_path_factory.mktemp("package"), tmp_path_factory.mktemp("at_once"), sum(sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(package_files, "SHARD_ROWS", 7)
        patch.setattr(package_files, "GROUP_ROWS", 3)
        writer = write_pieces(folder, sizes)
        write_pieces(at_once, [total])
    assert all((folder / path).read_bytes() == (at_once / path).read_bytes() for path in writer.rows)
    written = {path: pq.read_table(folder / path) for path in writer.rows}
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.parquet")} == set(written)
    assert list(written) == sorted(written)
    assert len(written) == max(1, -(-total // 7))
    assert [t.num_rows for t in written.values()] == list(writer.rows.values())
    assert max(writer.rows.values()) - min(writer.rows.values()) <= 1
    ids = [value for t in written.values() for value in t["window_id"].to_pylist()]
    assert ids == [f"{i:032d}" for i in range(total)]
    groups = [pq.ParquetFile(folder / path).metadata for path in written]
    assert all(meta.row_group(g).num_rows <= 3 for meta in groups for g in range(meta.num_row_groups))


@pytest.mark.parametrize("came", [2, 4])
def test_another_number_of_rows_than_announced_is_an_error(tmp_path, came):
    with (
        pytest.raises(CorruptResourceError, match="number of windows written differs"),
        WindowShardWriter(tmp_path, Split.TEST, 3) as writer,
    ):
        writer.write(rows(came))


def test_a_table_without_rows_has_its_schema_and_no_row_group(tmp_path):
    assert write_package_table(tmp_path / "a" / "b.parquet", [PACKAGE_VARIANTS.empty()], PACKAGE_VARIANTS) == 0
    file = pq.ParquetFile(tmp_path / "a" / "b.parquet")
    PACKAGE_VARIANTS.check(file.schema_arrow, where="b.parquet")
    assert file.metadata.num_row_groups == 0
