"""A wrong number in any array of the mapped form, or a wrong name in its index, is found by the check of the build."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.edits.windows import WindowRecord
from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.memory_mapped import window_writer
from genolewm_assets.memory_mapped.checks import check_mapped
from genolewm_assets.memory_mapped.split import MappedSplit
from genolewm_assets.memory_mapped.windows import MappedWindows
from genolewm_assets.package_build.writer import write_package
from genolewm_assets.packages.info import read_package_info
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.files import canonical_json
from genolewm_assets_tests.referees.sampling.plain_windows import SplitWindows
from genolewm_assets_tests.worlds.lewm.mapped_world import map_windows
from genolewm_assets_tests.worlds.lewm.package_world import make_caches, make_sources
from genolewm_assets_tests.worlds.lewm.stream_world import as_batch, make_window, simulate_reference


def some_windows() -> list[WindowRecord]:
    reference, windows = simulate_reference(3, 4_000), []
    for number in range(23):
        strand, start = "+-"[number % 2], 300 + 97 * (number % 7)
        window = make_window(reference, start, strand=strand, placed=number % 4 > 0, window_bp=120 + 6 * (number % 5))
        cached = {"cache_key": f"key-{number % 3}", "cache_row": 100 - number} if number % 5 else {}
        name = f"{number % 9}" * 32
        windows.append(replace(window, window_id=name, origin="reference" if number % 3 else "mrna_evo2", **cached))
    return windows


@pytest.fixture(params=[5, 1_024])
def both(request, tmp_path, monkeypatch) -> tuple[SplitWindows, MappedWindows]:
    monkeypatch.setattr(window_writer, "_PACKED_ROWS", request.param)
    windows = some_windows()
    batches = [as_batch(windows[:8]), as_batch([]), as_batch(windows[8:])]
    return SplitWindows(batches), map_windows(tmp_path / "train", batches)


def test_every_row_is_that_of_the_tables(both):
    plain, mapped = both
    assert len(plain) == len(mapped) == 23
    assert [mapped.record(row) for row in range(23)] == [plain.record(row) for row in range(23)]
    assert (mapped.window_ids == plain.window_ids).all()
    assert (mapped.origins == plain.origins).all()
    assert (mapped.shortest_bp, mapped.all_placed, mapped.contigs) == (
        plain.shortest_bp, plain.all_placed, plain.contigs,
    )  # fmt: skip
    ids = plain.window_ids.tolist()
    assert mapped.first_rows.tolist() == [ids.index(name) for name in ids]


@pytest.mark.parametrize("rows", [[], [4], [0, 1, 2, 3], [22, 3, 4, 5, 3, 0], list(range(23))])
def test_packed_windows_are_those_of_the_tables(both, rows):
    plain, mapped = (one.packed(np.array(rows, dtype=np.int64)) for one in both)
    assert mapped.contigs == plain.contigs
    for name in ("sizes", "window_ids", "origins", "contig", "start", "is_reverse"):
        ours, theirs = getattr(mapped, name), getattr(plain, name)
        assert (ours.dtype.kind, ours.tolist()) == (theirs.dtype.kind, theirs.tolist())
    for ours, theirs, sizes in zip(mapped.first, plain.first, plain.sizes, strict=True):
        n = -(-int(sizes.sum()) // 4)
        assert mapped.packed[ours : ours + n].tolist() == plain.packed[theirs : theirs + n].tolist()


def test_spans_and_caches(both):
    plain, mapped = both
    for ours, theirs in zip(mapped.spans(10, 20), plain.spans(10, 20), strict=True):
        assert ours[0] == theirs[0]
        assert [part.tolist() for part in ours[1:]] == [part.tolist() for part in theirs[1:]]
    keys, code, row = mapped.cached(np.array([5, 6, 0]))
    assert [(keys[c], r) for c, r in zip(code.tolist(), row.tolist(), strict=True)] == [
        (None, -1), ("key-0", 94), (None, -1),
    ]  # fmt: skip


def test_a_pickle_is_small_and_opens_the_same(both):
    _, mapped = both
    mapped.record(0)
    text = pickle.dumps(mapped)
    assert len(text) < 1_000
    assert pickle.loads(text).record(7) == mapped.record(7)


def test_a_forked_process_reads_the_same_bases(both):
    _, mapped = both
    expected, (receive, send) = mapped.record(11), os.pipe()
    child = os.fork()
    if not child:
        os.write(send, mapped.record(11).sequence.encode())
        os._exit(0)
    mapped.record(3)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(receive, 10_000).decode() == expected.sequence


@pytest.mark.parametrize("column", ["sequence", "left_flank", "right_flank"])
def test_another_base_is_refused(tmp_path, column):
    window = replace(make_window(simulate_reference(3, 4_000), 300, window_bp=120), window_id="0" * 32)
    wrong = replace(window, **{column: "ACN" + getattr(window, column)[3:]})
    with pytest.raises(CorruptResourceError, match=r"window 0+: a sequence or flank .*got 'N'"):
        map_windows(tmp_path / "train", [as_batch([window, wrong])])


def test_a_split_without_windows(tmp_path):
    mapped = map_windows(tmp_path / "train", [])
    assert (len(mapped), mapped.shortest_bp, mapped.all_placed, mapped.contigs) == (0, 0, True, ())
    assert list(mapped.spans(0, 0)) == []
    assert len(mapped.packed(np.zeros(0, np.int64)).packed) == 0
    assert mapped.split.held_sequences() is None
    assert len(mapped.split.held_out()) == 0


def test_bases_that_end_early_are_found(both, tmp_path):
    _, mapped = both
    path = mapped.split.folder / "windows" / "bases.npy"
    reopened = MappedWindows(MappedSplit(mapped.split.folder))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptResourceError, match="ends before the bases of a window"):
        reopened.record(22)
    with pytest.raises(CorruptResourceError, match="is not the array that its index states"):
        MappedSplit(mapped.split.folder)


@pytest.mark.parametrize(
    ("name", "values"),
    [("sizes", [-(10**9), 120, 10**9]), ("first_byte", -5_000), ("contig", 9), ("contig", -7)],
)
def test_numbers_that_lead_out_of_the_arrays_are_refused(tmp_path, name, values):
    """The loops over bases and alleles test no index: with such sizes and contigs they would end the process."""
    map_windows(tmp_path / "train", [as_batch(some_windows())])
    path = tmp_path / "train" / "windows" / f"{name}.npy"
    array = np.load(path)
    array[3] = values
    np.save(path, array)
    windows = MappedWindows(MappedSplit(tmp_path / "train"))
    windows.packed(np.array([2, 4]))
    with pytest.raises(CorruptResourceError, match=rf"windows/{name}\.npy: holds a number that is out of range"):
        windows.packed(np.array([2, 3]))


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
    before = sorted(written.rglob("*"))
    result = check_mapped(written, read_package_info(written), scratch=written)
    info = read_package_info(written)
    assert result.passed
    assert result.figures["windows"] == sum(split.windows for split in info.splits.values())
    assert result.figures["wrong"] == 0
    assert result.figures["alleles"] > 100
    assert result.figures["held_out_alleles"] == 3
    assert result.figures["kmers"] > 31
    assert sorted(written.rglob("*")) == before


def test_every_array_is_there(written):
    found = {path.split("/", 2)[2] for path in arrays(written)}
    assert len(found) == 14 + 1 + 4 + 9 + 4 + 3


@pytest.mark.nightly
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
        assert result.rows == ({"split": path.split("/")[1], "file": path.split("/", 2)[2], "fault": "is missing"},)
        assert not (copy / path).exists()
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


def huge(path: Path) -> None:
    shape = {"descr": "|S32", "fortran_order": False, "shape": (2**70,)}
    with path.open("r+b") as file:
        np.lib.format.write_array_header_1_0(file, shape)


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def below_a_file(path: Path) -> None:
    shutil.rmtree(path.parent)
    path.parent.write_text("")


@pytest.mark.parametrize("damage", [huge, as_folder, below_a_file])
def test_an_array_that_cannot_be_opened_is_named(copy, damage):
    damage(copy / "arrays/train/windows/window_id.npy")
    result = check(copy)
    assert not result.passed
    assert result.rows[0]["file"].startswith("windows/")


def test_a_package_without_the_rule_of_the_form_is_named(copy):
    path = copy / "package.json"
    record = json.loads(path.read_text())
    del record["policy"]["min_stars"]
    path.write_bytes(canonical_json(record, str(path)))
    assert "its policy has no min_stars" in str(check(copy).rows[0]["fault"])
