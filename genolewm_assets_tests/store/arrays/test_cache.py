"""What a cache was made from: changed before, during or after the build."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from genolewm_assets.errors import ConfigurationError, CorruptResourceError, MissingResourceError
from genolewm_assets.store import ArrayStoreReader, cache_key_dir, is_complete, read_stamped
from genolewm_assets.store.arrays.keys import validate_sources
from genolewm_assets.store.arrays.report import verify_array_store
from genolewm_assets.store.arrays.stamps import RowStamp, SourceChangedError, read_stamps
from genolewm_assets.store.artefacts.gc import sweep_caches
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.files import generations_in
from genolewm_assets_tests.worlds.store.array_caches import (
    CONFIG,
    KEY,
    N_ROWS,
    OLD_NS,
    PANEL,
    arrays_of,
    build_cache,
    expected_rows,
    leftovers,
    open_cache,
    published_bytes,
    rows_of,
    write_rows,
    write_source,
    write_sources,
)
from genolewm_assets_tests.worlds.store.array_stores import contents
from genolewm_assets_tests.worlds.store.plans import flip, new_root


def test_a_cache_lies_where_the_specification_says(cache_dir: Path, files: dict[str, Path]) -> None:
    generation = build_cache(cache_dir, files)
    link = cache_key_dir(cache_dir, KEY)
    assert len(KEY) == 16
    assert link.is_symlink()
    assert link.resolve() == generation == next(generations_in(cache_dir))
    assert not link.readlink().is_absolute()
    names = {"data.bin", "scaler.bin", "index.parquet", "shapes.json", "fingerprint.json", "_COMPLETE"}
    records = {"crc.json", "stamps.json", "manifest.json", "provenance.json"}
    assert {path.name for path in link.iterdir()} == names | records
    assert is_complete(link)
    assert rows_of(link) == expected_rows(files)
    assert ArrayStoreReader(link).keys() == [f"samples/{row}.hid" for row in range(N_ROWS)]
    assert validate_sources(link, CONFIG, files)
    assert set(read_stamps(link)) == set(files)
    assert leftovers(cache_dir) == []


def test_a_moved_folder_of_caches_stays_valid(cache_dir: Path, files: dict[str, Path], tmp_path: Path) -> None:
    build_cache(cache_dir, files)
    shutil.copytree(cache_dir, tmp_path / "copy", symlinks=True)
    shutil.move(cache_dir, tmp_path / "elsewhere")
    for folder in ("copy", "elsewhere"):
        link = cache_key_dir(tmp_path / folder, KEY)
        assert rows_of(link) == expected_rows(files)
        assert validate_sources(link, CONFIG, files)


def test_bytes_depend_on_no_folder_time_interruption(cache_dir: Path, files: dict[str, Path], tmp_path: Path) -> None:
    undisturbed = build_cache(cache_dir, files)
    for path in files.values():
        os.utime(path, ns=(OLD_NS + 77, OLD_NS + 77))
    other = tmp_path / "other"
    for stop in (3, 5, 9):
        with open_cache(other, files) as writer:
            write_rows(writer, files, stop)
    again = build_cache(other, files)
    assert again.name == undisturbed.name
    assert published_bytes(again) == published_bytes(undisturbed)
    assert contents(again)["stamps.json"] != contents(undisturbed)["stamps.json"]


def test_committed_rows_are_not_written_again(cache_dir: Path, files: dict[str, Path]) -> None:
    writer = open_cache(cache_dir, files)
    write_rows(writer, files, 6)
    writer.close()
    assert not cache_key_dir(cache_dir, KEY).exists()
    with open_cache(cache_dir, files) as again:
        assert again.resume_keys() == [f"samples/{row}.hid" for row in range(4)]
        assert set(again.stamps) == set(files)
        again.commit()


def test_milliseconds_are_passed_on(cache_dir: Path, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    with open_cache(cache_dir, files, commit_rows=1000, commit_ms=50, batch_rows=4) as writer:
        now = time.monotonic()
        for stop, elapsed_s in ((2, 0.0), (3, 0.06)):
            monkeypatch.setattr(time, "monotonic", lambda elapsed_s=elapsed_s: now + elapsed_s)
            write_rows(writer, files, stop)
        monkeypatch.undo()
    with open_cache(cache_dir, files, commit_rows=1000, batch_rows=4) as again:
        assert len(again.resume_keys()) == 3


def test_finalizing_or_opening_again_changes_nothing(cache_dir: Path, files: dict[str, Path]) -> None:
    with open_cache(cache_dir, files) as writer:
        write_rows(writer, files)
        generation = writer.finalize()
        before = contents(generation)
        assert writer.finalize() == generation
        with pytest.raises(ConfigurationError, match="the array cache is finished"):
            writer.write(arrays_of(b"", b""), key="more")
    with open_cache(cache_dir, files) as writer:
        assert writer.is_finished
        assert write_rows(writer, files) == []
        assert writer.finalize() == generation
    assert contents(generation) == before


def test_damage_of_the_published_cache_is_healed(cache_dir: Path, files: dict[str, Path]) -> None:
    generation = build_cache(cache_dir, files)
    intact = published_bytes(generation)
    flip(generation / "data.bin", 40)
    assert verify_array_store(generation) != []
    assert build_cache(cache_dir, files) == generation
    assert published_bytes(generation) == intact


def test_another_layout_is_another_build(cache_dir: Path, files: dict[str, Path]) -> None:
    old = build_cache(cache_dir, files)
    with open_cache(cache_dir, files, batch_rows=5) as writer:
        assert writer.resume_keys() == []
        write_rows(writer, files)
        assert writer.finalize() != old
    assert rows_of(cache_key_dir(cache_dir, KEY)) == expected_rows(files)


REFUSED: dict[str, tuple[Callable[[Path], object], type[Exception], str]] = {
    "in a root": (lambda d: new_root(d.parent), ConfigurationError, "is inside the root"),
    "a root itself": (new_root, ConfigurationError, "is inside the root"),
    "a plain folder": (lambda d: (d / KEY).mkdir(parents=True), CorruptResourceError, "in the place of the published"),
}


@pytest.mark.parametrize(("prepare", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_places_where_no_cache_can_be(
    cache_dir: Path, files: dict[str, Path], prepare: Callable[[Path], object], error: type[Exception], message: str
) -> None:
    prepare(cache_dir)
    with pytest.raises(error, match=message):
        open_cache(cache_dir, files)


def test_sweeping_a_folder_of_caches(cache_dir: Path, files: dict[str, Path]) -> None:
    old = build_cache(cache_dir, files)
    with pytest.raises(MissingResourceError):
        ArrayStoreReader(cache_dir)
    files = write_sources(cache_dir.parent / "data", 2)
    new = build_cache(cache_dir, files)
    assert old.is_dir(), "whoever opened the old one goes on reading it"
    nested = build_cache(cache_dir / "nested", files)
    build_cache(cache_dir / "nested", write_sources(cache_dir.parent / "data", 3))
    with open_cache(cache_dir, files) as writer:
        write_rows(writer, files, 5)
    (work,) = Root(cache_dir).leftovers(KEY)
    superseded, abandoned = f".gen/{old.name}", f"work/{KEY}/{work.name}"
    assert [item.path for item in sweep_caches(cache_dir, dry_run=True)] == [superseded]
    assert [item.path for item in sweep_caches(cache_dir)] == [superseded]
    assert (old.exists(), new.exists(), nested.exists()) == (False, True, True)
    for path in [work, *work.iterdir()]:
        os.utime(path, (0, 0))
    assert [item.path for item in sweep_caches(cache_dir)] == [abandoned]
    assert rows_of(new)
    new_root(cache_dir.parent / "root")
    (cache_dir.parent / "root" / "embeddings").mkdir()
    for inside in ("root", "root/embeddings"):
        with pytest.raises(ConfigurationError, match=r"belongs to the root .* Use genolewm gc"):
            sweep_caches(cache_dir.parent / inside)
    with pytest.raises(MissingResourceError, match="no such folder"):
        sweep_caches(cache_dir.parent / "none")


CHANGED: dict[str, Callable[[dict[str, Path]], object]] = {
    "of a row": lambda files: write_source(files["samples/3.hid"], "another content"),
    "of every row": lambda files: write_source(files[PANEL], "another content"),
    "under the old size and time": lambda files: write_source(
        files["samples/3.hid"], "SAMPLES/3.hid version 1", OLD_NS + 1
    ),
    "new": lambda files: files.setdefault("new.hid", files[PANEL]),
    "gone": lambda files: files.pop("samples/10.hid"),
}


@pytest.mark.parametrize("change", CHANGED.values(), ids=CHANGED)
def test_a_source_that_changed_since_a_row_was_committed_starts_the_build_anew(
    cache_dir: Path, files: dict[str, Path], change: Callable[[dict[str, Path]], object]
) -> None:
    with open_cache(cache_dir, files) as writer:
        write_rows(writer, files, 5)
    change(files)
    with open_cache(cache_dir, files) as again:
        assert again.resume_keys() == []
        assert len(write_rows(again, files)) == len(files) - 1
        assert rows_of(again.finalize()) == expected_rows(files)
    assert leftovers(cache_dir) == []


def test_a_damaged_unfinished_store_is_begun_anew(cache_dir: Path, files: dict[str, Path]) -> None:
    with open_cache(cache_dir, files) as writer:
        write_rows(writer, files, 5)
    (work,) = Root(cache_dir).leftovers(KEY)
    (work / "manifest.jsonl").unlink()
    (work / "manifest.jsonl").symlink_to("elsewhere")
    with open_cache(cache_dir, files) as again:
        assert again.resume_keys() == []
    assert rows_of(build_cache(cache_dir, files)) == expected_rows(files)


@pytest.mark.parametrize("name", ["samples/3.hid", PANEL])
def test_a_source_that_changes_during_the_build_is_noticed(cache_dir: Path, files: dict[str, Path], name: str) -> None:
    old = build_cache(cache_dir, write_sources(cache_dir.parent / "data", 0))
    write_sources(cache_dir.parent / "data", 1)
    with open_cache(cache_dir, files) as writer:
        write_rows(writer, files)
        write_source(files[name], "another content")
        with pytest.raises(SourceChangedError, match=rf"files changed since the build began \('{name}'; 1 in all\)"):
            writer.finalize()
    assert leftovers(cache_dir) == []
    assert cache_key_dir(cache_dir, KEY).resolve() == old
    assert rows_of(build_cache(cache_dir, files)) == expected_rows(files)


def test_rows_of_two_panels_never_stand_in_one_cache(cache_dir: Path, files: dict[str, Path]) -> None:
    with open_cache(cache_dir, files) as writer:
        write_rows(writer, files, 2)
        write_source(files[PANEL], "another panel")
        with pytest.raises(SourceChangedError, match=r"panel\.xml: was changed since the build began"):
            write_rows(writer, files)


def test_files_that_gave_no_row_count_too(cache_dir: Path, files: dict[str, Path]) -> None:
    dropped = cache_dir.parent / "data" / "dropped.hid"
    write_source(dropped, "no annotation")
    more = {**files, "dropped.hid": dropped}
    with open_cache(cache_dir, more) as writer:
        writer.check_stamps({"dropped.hid": read_stamped(dropped)[1]})
        write_rows(writer, files)
        generation = writer.finalize()
    assert set(read_stamps(generation)) == set(more)
    write_source(dropped, "annotated after all")
    assert not validate_sources(generation, CONFIG, more)


def test_a_finished_store_that_was_not_published_goes_stale_as_well(
    cache_dir: Path, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr("genolewm_assets.store.artefacts.location.publish_generation", refuse)
        build_cache(cache_dir, files)
    with open_cache(cache_dir, files) as writer:
        assert (writer.is_finished, len(writer.resume_keys())) == (False, N_ROWS)
        write_source(files[PANEL], "another panel")
        with pytest.raises(SourceChangedError, match=r"'panel\.xml'; 1 in all"):
            writer.finalize()
    with open_cache(cache_dir, files) as writer:
        assert writer.resume_keys() == []


def test_names_of_files_stay_inside_the_root(cache_dir: Path, files: dict[str, Path]) -> None:
    with pytest.raises(ConfigurationError, match="expected a name relative to the root"):
        open_cache(cache_dir, {"../a.hid": files[PANEL]})
    assert not cache_dir.exists()
    with open_cache(cache_dir, files) as writer, pytest.raises(ConfigurationError, match=r"got 'b\.hid'"):
        writer.write(arrays_of(b"", b""), key="b", stamps={"b.hid": RowStamp("a" * 64, 0, None)})
