"""The data set over simulated run folders: what is built, when, and what items are."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genolewm_assets import forensic
from genolewm_assets.errors import ConfigurationError, InputError
from genolewm_assets.forensic import (
    HIDImage,
    NFIRnDStrategy,
    RunFolderStrategy,
    fit_ladder,
    parse_hid,
    read_panel,
    size_run,
    to_arrays,
)
from genolewm_assets.forensic.dataset import build, profiles
from genolewm_assets.forensic.dataset.scaling import nearest_scans
from genolewm_assets.store.files import generations_in
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.forensic.folders import (
    ANNOTATED,
    REPORT,
    SAMPLES,
    allele_report,
    open_dataset,
    scaling_of,
    write_folder,
    write_kit,
)
from genolewm_assets_tests.worlds.forensic.runs import KIT, SHIFT_BP

NAMES = [f"run 1/{name}.hid" for name in SAMPLES]


class Folder:
    def __init__(self, place: Path) -> None:
        self.root, self.caches = write_folder(place / "data"), place / "caches"
        self.panel_paths = write_kit(place / "kit")

    def open(self, **changes: Any) -> forensic.HIDDataset:
        return open_dataset(self.root, self.panel_paths, self.caches, **changes)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    return Folder(tmp_path_factory.mktemp("shared"))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def paths(dataset: forensic.HIDDataset) -> list[str]:
    return [entry.path for entry in dataset.index]


def test_an_item_is_the_run_on_the_grid(shared: Folder) -> None:
    image = shared.open(data_loading_strategy="raw")[0]
    assert isinstance(image, HIDImage)
    run = parse_hid((shared.root / NAMES[0]).read_bytes(), "sample")
    sizes = size_run(run).scaler
    scans = nearest_scans(sizes, np.linspace(70, 400, 1_024))
    np.testing.assert_array_equal(image.data, [run.dyes[row].raw[scans] for row in range(4)])
    np.testing.assert_array_equal(image.scaler, sizes[scans])
    assert (image.data.dtype, image.scaler.dtype) == (np.int16, np.float32)
    assert image.path == NAMES[0]
    assert image.meta["ladder"] == "run 1/b01_Ladder.hid"
    assert image.meta["unplaced_alleles"] == 0


def test_the_mask_is_the_moved_bins_of_the_report(shared: Folder) -> None:
    image = shared.open()[0]
    wanted = np.zeros(image.data.shape, np.int8)
    for locus, alleles in SAMPLES["a01"].items():
        made = KIT[locus]
        for allele in alleles:
            limits = made.size(allele) - SHIFT_BP + np.array([-0.5, 0.5])
            first, end = (int(np.abs(image.scaler - limit).argmin()) for limit in limits)
            wanted[made.channel - 1, first:end] = 1
    assert image.annotation is not None
    assert image.annotation.dtype == np.int8
    # Ladder peaks are measured, so the limits may be one point off.
    assert np.abs(image.annotation - wanted).sum() <= 4 * sum(map(len, SAMPLES["a01"].values()))
    assert (image.annotation & wanted).sum() > 0.6 * wanted.sum()
    assert image.allele_annotation is not None
    assert image.allele_annotation.loci == {locus: tuple(own) for locus, own in SAMPLES["a01"].items()}
    run = parse_hid((shared.root / "run 1" / "b01_Ladder.hid").read_bytes(), "ladder")
    assert image.adjusted_panel == fit_ladder(run, size_run(run), read_panel(*shared.panel_paths)).panel


@pytest.mark.parametrize("adjustment", ["top", "complete"])
def test_adjusted_masks_are_at_the_peaks(shared: Folder, adjustment: Any) -> None:
    image = shared.open(adjustment_of_annotations=adjustment)[0]
    runs = [np.flatnonzero(np.diff(np.r_[0, row, 0])) for row in image.annotation]
    # Alleles 9.3 and 10 are 1 bp apart: between them the trace stays above 40 RFU.
    assert sum(map(len, runs)) == 2 * (sum(map(len, SAMPLES["a01"].values())) - (adjustment == "complete"))
    for row, edges in enumerate(runs):
        for first, end in zip(edges[::2], edges[1::2], strict=True):
            assert image.data[row, first:end].max() > 1_500
            assert end - first == 1 or adjustment == "complete"
            assert (image.data[row, first:end] >= 40).all()


def test_an_index_error_of_a_transform_does_not_end_the_profiles(shared: Folder) -> None:
    def broken(_: object) -> None:
        raise IndexError("of the transform")

    with pytest.raises(IndexError, match="of the transform"):
        list(shared.open(allow_missing_annotations=True, transform=broken))


def test_samples_without_annotation_are_dropped_or_kept(shared: Folder) -> None:
    dropping, keeping = shared.open(), shared.open(allow_missing_annotations=True)
    assert paths(dropping) == [f"run 1/{name}.hid" for name in ANNOTATED]
    assert paths(keeping) == NAMES
    assert [image.annotation is None for image in keeping] == [False, True, False]
    assert [entry.has_annotation for entry in keeping.index] == [True, False, True]
    assert keeping[1].allele_annotation is None
    assert dropping.cache_directory != keeping.cache_directory
    np.testing.assert_array_equal(keeping[2].data, dropping[1].data)


def test_the_report_of_a_build_accounts_for_every_sample(folder: Folder) -> None:
    (folder.root / "run 1" / "broken.hid").write_bytes(b"ABIF")
    report = folder.open().build_report
    assert report is not None
    assert (report.n_written, report.counts) == (2, {"no_annotation": 2})
    report = folder.open(allow_missing_annotations=True).build_report
    assert report is not None
    assert (report.n_written, report.omitted) == (3, {"run 1/broken.hid": "unreadable"})
    assert folder.open(allow_missing_annotations=True).build_report is None


def test_a_cache_that_is_current_is_opened_without_parsing(shared: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [image.data for image in shared.open()]
    for module, name in (
        (profiles, "parse_hid"),
        (build, "MemmapCacheWriter"),
        (RunFolderStrategy, "collect_dataset_files"),
    ):
        monkeypatch.setattr(module, name, lambda *_, **__: pytest.fail("parsed again"))
    dataset = shared.open()
    assert dataset.build_report is None
    for image, data in zip(dataset, wanted, strict=True):
        np.testing.assert_array_equal(image.data, data)


@each_row(
    "changes",
    [
        {"scaling_strategy": 512},
        {"dataset_strategy": NFIRnDStrategy()},
        {"dataset_strategy": RunFolderStrategy(spans=("*.spans",))},
        {"adjustment_of_annotations": "top"},
        {"include_size_standard": True},
        {"data_loading_strategy": "raw"},
        {"allow_missing_annotations": True},
        {"skip_if_invalid_ladder": True},
    ],
)
def test_each_parameter_has_a_cache_of_its_own(shared: Folder, changes: dict[str, Any]) -> None:
    usual = shared.open()
    if "scaling_strategy" in changes:
        changes = {"scaling_strategy": scaling_of(shared.panel_paths, scanpoint_resolution=512)}
    try:
        assert shared.open(**changes).cache_directory != usual.cache_directory
    except InputError as err:  # names of NFI's mixtures, and spans, are not in this folder
        assert "no profile can be stored" in str(err)


def test_the_size_standard_is_the_last_row(shared: Folder) -> None:
    image = shared.open(include_size_standard=True)[0]
    assert image.data.shape == (5, 1_024)
    at = int(np.abs(image.scaler - 200).argmin())
    assert image.data[4, at - 3 : at + 4].max() > 600
    assert image.annotation[4].sum() == 0


@pytest.mark.parametrize("changed", [NAMES[0], "run 1/b01_Ladder.hid", REPORT, "kit"])
def test_a_change_of_any_source_builds_again(folder: Folder, changed: str) -> None:
    before = folder.open()
    assert folder.open().build_report is None
    path = folder.panel_paths[1] if changed == "kit" else folder.root / changed
    text = path.read_bytes()
    if changed == REPORT:
        text = text.replace(b"\t15.3\t", b"\t10\t")
    elif changed == "kit":
        text = text.replace(b"\t0.5\t0.5", b"\t0.4\t0.4")
    else:
        text += b"\0"
    path.write_bytes(text)
    after = folder.open()
    assert after.build_report is not None
    assert after.cache_directory == before.cache_directory
    assert (after[0].annotation != before[0].annotation).any() == (changed in {REPORT, "kit"})


def test_new_and_removed_samples_build_again(folder: Folder) -> None:
    folder.open()
    extra = folder.root / "run 1" / "c01.hid"
    extra.write_bytes((folder.root / NAMES[0]).read_bytes())
    (folder.root / "Set 2 DTH_AlleleReport.txt").write_text(allele_report({"c01": SAMPLES["a01"]}))
    assert len(folder.open()) == 3
    extra.unlink()
    assert len(folder.open()) == 2


def test_an_interrupted_build_goes_on(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    usual = build.make_profile

    def make(name: str, *rest: Any, **named: Any) -> Any:
        if len(made) == 2:
            raise KeyboardInterrupt
        made.append(name)
        return usual(name, *rest, **named)

    commit = build.MemmapCacheWriter.__exit__
    monkeypatch.setattr(build, "make_profile", make)
    monkeypatch.setattr(build.MemmapCacheWriter, "__exit__", lambda self, *_: commit(self, None, None, None))
    with pytest.raises(KeyboardInterrupt):
        folder.open(allow_missing_annotations=True)
    monkeypatch.undo()
    seen: list[str] = []
    monkeypatch.setattr(build, "make_profile", lambda *a, **k: (seen.append(a[0]), usual(*a, **k))[1])
    assert paths(folder.open(allow_missing_annotations=True)) == NAMES
    assert (made, seen) == (NAMES[:2], NAMES[2:])


def test_a_report_that_came_during_an_interruption_is_not_missed(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, commit = build.make_profile, build.MemmapCacheWriter.__exit__

    def make(name: str, *rest: Any, **named: Any) -> Any:
        if name == NAMES[2]:
            raise KeyboardInterrupt
        return usual(name, *rest, **named)

    monkeypatch.setattr(build, "make_profile", make)
    monkeypatch.setattr(build.MemmapCacheWriter, "__exit__", lambda self, *_: commit(self, None, None, None))
    with pytest.raises(KeyboardInterrupt):
        folder.open(allow_missing_annotations=True)
    monkeypatch.undo()
    (folder.root / "Set 2 DTH_AlleleReport.txt").write_text(allele_report({"a02": SAMPLES["a02"]}))
    dataset = folder.open(allow_missing_annotations=True)
    assert [image.annotation is None for image in dataset] == [False, False, False]


def test_a_ladder_that_cannot_be_used(folder: Folder) -> None:
    (folder.root / "run 1" / "b01_Ladder.hid").write_bytes((folder.root / "run 1" / "b02_neg.hid").read_bytes())
    dataset = folder.open()
    assert dataset[0].meta["ladder"] is None
    assert dataset[0].adjusted_panel == read_panel(*folder.panel_paths)
    assert dataset.build_report is not None
    assert list(dataset.build_report.unusable_ladders) == ["run 1/b01_Ladder.hid"]
    with pytest.raises(InputError, match=r"no profile can be stored: .*3 samples, left out: \{.*'no_ladder': 2"):
        folder.open(skip_if_invalid_ladder=True)


def test_a_limit_draws_the_same_profiles_from_the_same_cache(shared: Folder) -> None:
    every = shared.open(allow_missing_annotations=True)
    drawn = [paths(shared.open(allow_missing_annotations=True, limit=2, seed=seed)) for seed in (0, 0, 1, 2, 3, 4)]
    assert drawn[0] == drawn[1]
    assert len({tuple(each) for each in drawn}) > 1
    assert all(len(each) == 2 and set(each) < set(paths(every)) for each in drawn)
    with pytest.raises(ConfigurationError, match="keeps no profile: expected at least 1, or None, got 0"):
        shared.open(limit=0)


def test_a_split_shares_no_group(shared: Folder) -> None:
    dataset = shared.open(allow_missing_annotations=True)
    whole = set(paths(dataset))
    parts = [dataset.split(0.5, seed=seed) for seed in range(12)]
    sides = [[{dataset.index[n].path for n in part.indices} for part in both] for both in parts]
    assert all(one | other == whole and not one & other and one and other for one, other in sides)
    assert len({tuple(sorted(one)) for one, _ in sides}) > 1
    assert parts[3][0].indices == dataset.split(0.5, seed=3)[0].indices
    assert parts[0][0][0].path in sides[0][0]
    replicas = shared.open(
        allow_missing_annotations=True, dataset_strategy=RunFolderStrategy(replica_pattern=r"^a0[12]")
    )
    assert replicas.build_report is None  # the pattern is not part of the key
    with pytest.raises(ConfigurationError, match="cannot divide one group: expected at least 2 groups, got 1"):
        shared.open(allow_missing_annotations=True, dataset_strategy=RunFolderStrategy(replica_pattern=r"^a0")).split(
            0.5
        )
    with pytest.raises(ConfigurationError, match="above 0 and below 1, got 1"):
        dataset.split(1)


def test_items_are_indexed_like_a_sequence(shared: Folder) -> None:
    dataset = shared.open()
    assert dataset[-1].path == dataset[np.int64(1)].path == paths(dataset)[1]
    for wrong in (2, -3):
        with pytest.raises(IndexError):
            dataset[wrong]
    before = dataset[0].data[0, 0]
    dataset[0].data[0, 0] += 1
    assert dataset[0].data[0, 0] == before


def test_what_is_printed_shows_neither_names_nor_alleles(shared: Folder) -> None:
    dataset = shared.open()
    for text in map(repr, (dataset, dataset[0], dataset[0].allele_annotation)):
        assert "a01" not in text
        assert "15" not in text
    assert repr(dataset) == "HIDDataset(2 profiles)"
    assert repr(dataset[0]) == "HIDImage(row=0, shape=(4, 1024))"


def test_the_memory_guard(shared: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = shared.open(load_in_memory=True)
    np.testing.assert_array_equal(dataset[1].data, shared.open()[1].data)
    monkeypatch.setattr("genolewm_assets.store.arrays.memory.usable_memory_bytes", lambda: 10_000)
    with pytest.raises(RuntimeError, match=r"load_in_memory=True refused: .*would use 32768 bytes.* exceeds 50% of"):
        shared.open(load_in_memory=True)


def read_items(dataset: forensic.HIDDataset) -> tuple[int, list[bytes]]:
    return os.getpid(), [dataset[row].data.tobytes() + dataset[row].scaler.tobytes() for row in (1, 0, 1)]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize(("method", "load_in_memory"), [("fork", False), ("fork", True), ("spawn", True)])
def test_workers_read_the_same_items(shared: Folder, method: str, load_in_memory: bool) -> None:
    dataset = shared.open(load_in_memory=load_in_memory)
    wanted = read_items(dataset)[1]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(method)) as pool:
        found = list(pool.map(read_items, [dataset] * 3))
    assert all(pid != os.getpid() and items == wanted for pid, items in found)
    image = pickle.loads(pickle.dumps(dataset[0]))
    assert image.adjusted_panel == dataset[0].adjusted_panel
    copy = pickle.loads(pickle.dumps(dataset))
    assert read_items(copy)[1] == wanted
    assert copy[0].adjusted_panel == dataset[0].adjusted_panel


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_of_a_data_loader(shared: Folder, workers: int) -> None:
    import torch
    from torch.utils.data import DataLoader

    dataset = shared.open(allow_missing_annotations=True, transform=to_arrays)
    (batch,) = DataLoader(dataset, batch_size=3, num_workers=workers)
    assert batch["row"].tolist() == [0, 1, 2]
    assert batch["has_annotation"].tolist() == [True, False, True]
    assert (batch["data"].dtype, batch["annotation"].dtype) == (torch.int16, torch.int8)
    assert tuple(batch["data"].shape) == tuple(batch["annotation"].shape) == (3, 4, 1_024)
    assert batch["annotation"][1].sum() == 0
    np.testing.assert_array_equal(batch["scaler"][2].numpy(), dataset[2]["scaler"])


def test_spans_are_masks_of_categories(folder: Folder) -> None:
    rows = "u,a01,blue,10,14,Allele\nu,a01,red,20,20,PullUp\nu,a02,green,0,1,Stutter\n"
    (folder.root / "l.spans.csv").write_text("user,profile,dye,x0,x1,category\n" + rows)
    dataset = folder.open(dataset_strategy=RunFolderStrategy(spans=("*.spans.csv",)))
    assert paths(dataset) == NAMES[:2]
    assert np.argwhere(dataset[0].annotation).tolist() == [*([0, n] for n in range(10, 15)), [3, 20]]
    assert (dataset[0].annotation[0, 12], dataset[0].annotation[3, 20], dataset[1].annotation[1, 0]) == (1, 3, 2)
    assert dataset[0].allele_annotation is None


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_two_data_sets_built_at_once_are_one_cache(shared: Folder, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    settings = (shared.root, shared.panel_paths, tmp_path / "caches")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        found = list(pool.map(_open_and_read, [settings] * 2))
    assert found[0] == found[1]
    assert len(list(generations_in(tmp_path / "caches"))) == 1


def _open_and_read(settings: tuple[Path, tuple[Path, Path], Path]) -> list[bytes]:
    return read_items(open_dataset(*settings))[1]
