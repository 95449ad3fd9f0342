from __future__ import annotations

import json
from dataclasses import replace

import pytest

from genolewm_assets.errors import CorruptResourceError, MissingResourceError
from genolewm_assets.genome import Split
from genolewm_assets.lewm.packages.info import (
    PackageInfo,
    SplitInfo,
    parse_package_info,
    read_package_info,
    split_digest,
)
from genolewm_assets.lewm.packages.schema import CacheRef
from genolewm_assets.store.artefacts.manifest import FileEntry
from genolewm_assets.store.files.canonical_json import canonical_json
from genolewm_assets_tests.rows import each_row

FILES = tuple(
    FileEntry(path, 10, f"{i:064x}", 1)
    for i, path in enumerate(
        (
            "controls/test.parquet",
            "data/test-00000-of-00001.parquet",
            "data/train-00000-of-00002.parquet",
            "data/train-00001-of-00002.parquet",
            "variants/test.parquet",
            "variants/train.parquet",
        )
    )
)
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


def test_no_package_at_all(tmp_path):
    with pytest.raises(MissingResourceError, match=r"not a package: package\.json is missing"):
        read_package_info(tmp_path)


@each_row(
    ("change", "problem"),
    [
        ({"format_version": "1.0"}, r"expected genolewm\.package 2\.x, got genolewm\.package 1\.0"),
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


def test_a_minor_version_is_read():
    raw = replace(INFO, format_version="2.7").to_bytes()
    assert parse_package_info(raw, "package.json").format_version == "2.7"


def test_the_digest_of_a_split_depends_on_each_of_its_files_and_on_no_other():
    before = {split: split_digest(FILES, split) for split in Split}
    assert len(set(before.values())) == 3
    for i, entry in enumerate(FILES):
        changed = (*FILES[:i], replace(entry, sha256="f" * 64), *FILES[i + 1 :])
        owner = next(split for split in Split if f"/{split}" in entry.path)
        assert {split for split in Split if split_digest(changed, split) != before[split]} == {owner}


def test_window_files_of_a_split_in_order():
    assert [entry.path[-14:] for entry in INFO.split_files(Split.TRAIN)] == ["f-00002.parquet"[-14:]] * 2
    assert [entry.path for entry in INFO.split_files(Split.TRAIN)] == sorted(
        entry.path for entry in FILES if entry.path.startswith("data/train")
    )


def test_stars_of_training_are_written_where_there_are_some():
    """Packages of format 2.3 do not have them, and are compared with the bytes that this code writes."""
    assert b"min_training_stars" not in INFO.to_bytes()
    some = replace(INFO, mix=replace(INFO.mix, min_training_stars=2))
    assert parse_package_info(some.to_bytes(), "package.json") == some
