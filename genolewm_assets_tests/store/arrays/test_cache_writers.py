"""Several processes at one cache, and one that is killed: readers see the old cache or the new one."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from genolewm_assets.errors import BusyError, VersionError
from genolewm_assets.store import cache_key_dir, is_complete
from genolewm_assets.store.arrays.keys import validate_sources
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.faults.kill_points import KillPoints
from genolewm_assets_tests.faults.killing import outcome, start
from genolewm_assets_tests.worlds.store.array_caches import (
    CONFIG,
    KEY,
    N_ROWS,
    build_cache,
    expected_rows,
    leftovers,
    open_cache,
    published_bytes,
    rows_of,
    write_rows,
    write_sources,
)
from genolewm_assets_tests.worlds.store.array_stores import contents, restate
from genolewm_assets_tests.worlds.store.leases import wait_for


def test_another_writer_waits_or_fails(cache_dir: Path, files: dict[str, Path]) -> None:
    ready, refused = cache_dir.parent / "ready", cache_dir.parent / "refused"

    def slow() -> None:
        with open_cache(cache_dir, files) as writer:
            write_rows(writer, files, 5)
            ready.touch()
            wait_for(refused)
            # So long that the other one waits, unless it is slower.
            time.sleep(0.1)
            write_rows(writer, files)
            writer.finalize()

    child = start(slow)
    wait_for(ready)
    with pytest.raises(BusyError, match="another process"):
        open_cache(cache_dir, files)
    refused.touch()
    with open_cache(cache_dir, files, lock_wait_s=30.0) as writer:
        assert len(writer.resume_keys()) == N_ROWS, "what the other built is opened as finished"
    assert os.waitpid(child, 0)[1] == 0


def test_a_writer_that_lost_its_lock_publishes_nothing(cache_dir: Path, files: dict[str, Path]) -> None:
    """Its machine was asleep, say, and another took the lock over."""
    old = build_cache(cache_dir, write_sources(cache_dir.parent / "data", 0))
    write_sources(cache_dir.parent / "data", 1)
    with open_cache(cache_dir, files) as writer:
        write_rows(writer, files)
        record = cache_dir / "work" / KEY / "lock.json"
        record.write_bytes(record.read_bytes().replace(b'"token": "', b'"token": "0'))
        with pytest.raises(BusyError, match="this process lost the lock"):
            writer.finalize()
    assert cache_key_dir(cache_dir, KEY).resolve() == old


def seen(cache_dir: Path) -> list[bytes] | None:
    """What a reader sees that opens the cache now."""
    link = cache_key_dir(cache_dir, KEY)
    return rows_of(link) if os.path.lexists(link) else None


def test_killed_at_every_call(tmp_path: Path, kill_points: KillPoints, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers see before or after; the next build goes on from what was committed and ends as an undisturbed one."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    sources = [write_sources(tmp_path / f"data{version}", version, 6) for version in (0, 1)]
    (before, after), files = map(expected_rows, sources), sources[1]
    undisturbed = published_bytes(build_cache(tmp_path / "undisturbed", files))
    build_cache(tmp_path / "old", sources[0])
    folders: list[Path] = []

    def prepare() -> Callable[[], object]:
        folders.append(tmp_path / str(len(folders)))
        shutil.copytree(tmp_path / "old", folders[-1], symlinks=True)
        return lambda: build_cache(folders[-1], files)

    visible, written = [], []
    for point in kill_points(prepare, lambda: folders[-1]):
        folder = folders[-1]
        visible.append(seen(folder))
        assert visible[-1] in (before, after), f"after the kill at call {point}"
        with open_cache(folder, files) as writer:
            written.append(len(write_rows(writer, files)))
            generation = writer.finalize()
        assert published_bytes(generation) == undisturbed
        assert seen(folder) == after
        assert is_complete(folder / KEY)
        assert validate_sources(folder / KEY, CONFIG, files)
        assert leftovers(folder) == []
    assert after in visible
    assert kill_points.last >= 60
    assert written == sorted(written, reverse=True), "a later kill never costs more rows"
    assert set(written) == {6, 2, 0}


def test_readers_during_rebuilds_see_the_old_or_the_new(cache_dir: Path, files: dict[str, Path]) -> None:
    data, looks = cache_dir.parent / "data", cache_dir.parent / "looks"
    looks.mkdir()
    versions = [expected_rows(write_sources(data, version)) for version in range(4)]
    build_cache(cache_dir, write_sources(data, 0))

    def read() -> str:
        found, deadline = [0], time.monotonic() + 60
        while found[-1] < 3:
            assert time.monotonic() < deadline, "the last version was never shown"
            found.append(versions.index(rows_of(cache_key_dir(cache_dir, KEY))))
            (looks / str(found[-1])).touch()
        assert found == sorted(found)
        return f"{len(found)} looks at {len(set(found))} versions"

    def build_all() -> None:
        for version in (1, 2, 3):
            wait_for(looks / str(version - 1))
            build_cache(cache_dir, write_sources(data, version), lock_wait_s=10.0)

    child = start(build_all)
    told = outcome(read)
    assert os.waitpid(child, 0)[1] == 0
    assert told.endswith("looks at 4 versions"), told


def test_what_another_version_began_is_left_to_it(cache_dir: Path, files: dict[str, Path]) -> None:
    with open_cache(cache_dir, files) as writer:
        write_rows(writer, files, 5)
    (work,) = Root(cache_dir).leftovers(KEY)
    restate(work, log_version=3)
    before = contents(work)
    with pytest.raises(VersionError, match="expected log version 2, got log version 3"):
        open_cache(cache_dir, files)
    (left,) = Root(cache_dir).leftovers(KEY)
    assert contents(left) == before
