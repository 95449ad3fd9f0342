"""A wrong number in any array of the mapped form, or a wrong name in its index, is found by the check of the build."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.lewm.mapped.checks import check_mapped
from genolewm_assets.lewm.package_build.writer import write_package
from genolewm_assets.lewm.packages.info import read_package_info
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.worlds.lewm.package_world import make_caches, make_sources


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("mapped")
    root = Root(folder / "root")
    sources = make_sources()
    write_package(folder / "package", replace(sources, caches=make_caches(root, sources)))
    return folder / "package"


@pytest.fixture
def copy(written, tmp_path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "package"))


def arrays(directory: Path) -> list[str]:
    found = [path.relative_to(directory).as_posix() for path in sorted(directory.rglob("*.npy"))]
    return [path for path in found if np.load(directory / path).size]


def check(directory: Path):
    return check_mapped(directory, read_package_info(directory))


def test_a_package_as_written_passes_with_counts(written):
    result = check(written)
    info = read_package_info(written)
    assert result.passed
    assert result.figures["windows"] == sum(split.windows for split in info.splits.values())
    assert result.figures["wrong"] == 0
    assert result.figures["alleles"] > 100
    assert result.figures["held_out_alleles"] == 3
    assert result.figures["kmers"] > 31


def test_every_array_is_there(written):
    found = {path.split("/", 2)[2] for path in arrays(written)}
    assert len(found) == 13 + 1 + 4 + 9 + 4 + 3


@pytest.mark.parametrize("place", [0, -1])
def test_a_wrong_number_in_any_array_is_found(written, copy, place):
    missed = []
    for path in arrays(copy):
        array = np.load(copy / path)
        changed = array.copy().reshape(-1)
        raw = changed[place : place + 1 or None].view(np.uint8)
        # In the bases, one base; in a text, another letter; else the least bit.
        raw[0] ^= 1
        np.save(copy / path, changed.reshape(array.shape))
        missed += [] if not check(copy).passed else [path]
        np.save(copy / path, array)
    assert not missed, missed
    assert check(copy).passed


def test_rows_in_another_order_missing_rows_and_missing_files_are_found(copy):
    for path in (
        "arrays/train/windows/contig.npy",
        "arrays/validation/clinvar/pos.npy",
        "arrays/test/windows/start.npy",
    ):
        array = np.load(copy / path)
        for wrong in (array[::-1], array[:-1], np.concatenate((array, array[-1:]))):
            np.save(copy / path, wrong)
            assert not check(copy).passed, path
        (copy / path).unlink()
        result = check(copy)
        assert not result.passed
        assert "cannot be read (FileNotFoundError" in str(result.rows[0]["fault"])
        np.save(copy / path, array)
    assert check(copy).passed


@pytest.mark.parametrize(
    "change",
    [
        lambda index: index["contigs"].__setitem__(0, "chr2"),
        lambda index: index["origins"].reverse(),
        lambda index: index["caches"].append("key") or index["caches"].reverse(),
        lambda index: index["views"][0].__setitem__("n_windows", 1),
        lambda index: index["views"][0].__setitem__("shortest_bp", 1),
        lambda index: index["views"][0].__setitem__("all_placed", True),
        lambda index: index["views"][0].__setitem__("rows", [0, 0]),
        lambda index: index["views"].pop(),
        lambda index: index["alleles"]["gnomad"].__setitem__("n_alleles", 1),
        lambda index: index["alleles"]["gnomad"].__setitem__("longest_bp", [0]),
        lambda index: index["alleles"]["clinvar"].__setitem__("holdouts", ["holdout-chr"]),
        lambda index: index["alleles"]["held_out"].__setitem__("contigs", ["chr20"]),
        lambda index: index.__setitem__("n_kmers", None),
        lambda index: index.__setitem__("n_kmers", 3),
        lambda index: index.__setitem__("n_seed_words", 2),
        lambda index: index.__setitem__("n_windows", 3),
    ],
)
def test_a_wrong_index_is_found(copy, change):
    path = copy / "arrays/train/index.json"
    index = json.loads(path.read_text())
    change(index)
    path.write_text(json.dumps(index))
    assert not check(copy).passed
