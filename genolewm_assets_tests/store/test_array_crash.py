"""Kill -9 and power cuts while an array store is written: what is resumed ends as an undisturbed build."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.store import (
    ArrayStoreReader,
    BuildPlan,
    BuildReport,
    Root,
    build,
    is_complete,
    open_input,
    verify_root,
)
from genolewm_assets_tests.crash.killing import kill_points, start
from genolewm_assets_tests.store.array_stores import FINGERPRINT, contents, finish, open_writer, values, write_rows
from genolewm_assets_tests.store.plans import ARTEFACT, LOCATION, make_plan, new_root

pytestmark = pytest.mark.slow

ROWS = 19  # commits at 8, 16 and 19


def write_store(directory: Path, *, step: int = 3) -> None:
    """Continue a store and finish it, as a build does."""
    with open_writer(directory) as writer:
        for first in range(writer.n_rows, ROWS, step):
            write_rows(writer, first, min(first + step, ROWS))
        writer.finalize(FINGERPRINT)


@pytest.fixture
def undisturbed(tmp_path: Path) -> dict[str, bytes]:
    return contents(finish(tmp_path / "undisturbed", ROWS))


def check_prefix(directory: Path) -> int:
    """Open what a kill left: either finished, or a prefix of the rows."""
    with open_writer(directory) as writer:
        rows = writer.n_rows
        if not is_complete(directory):
            wanted = values(0, rows)
            for spec in writer.layout.arrays:
                assert (directory / spec.file_name).read_bytes() == wanted[spec.name].tobytes()
    return rows


def test_killed_at_every_call(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    seen: list[int] = []
    directories: list[Path] = []

    def prepare() -> Callable[[], object]:
        directories.append(tmp_path / str(len(directories)))
        return lambda: write_store(directories[-1])

    for _ in kill_points(prepare):
        seen.append(check_prefix(directories[-1]))
        write_store(directories[-1])
        assert contents(directories[-1]) == undisturbed
    assert set(seen) == {0, 8, 16, ROWS}
    assert seen == sorted(seen), "a later kill never leaves fewer rows"
    assert len(seen) > 40


def test_killed_at_every_call_of_the_resumption_too(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    directories: list[Path] = []

    def prepare() -> Callable[[], object]:
        directories.append(tmp_path / str(len(directories)))
        with open_writer(directories[-1]) as writer:
            write_rows(writer, 0, 11)
        with (directories[-1] / "states.bin").open("ab") as handle:
            handle.write(b"torn")
        return lambda: write_store(directories[-1])

    for _ in kill_points(prepare):
        assert check_prefix(directories[-1]) >= 11
        write_store(directories[-1])
        assert contents(directories[-1]) == undisturbed
    assert len(directories) > 30


def slowly(directory: Path) -> None:
    with open_writer(directory) as writer:
        for row in range(writer.n_rows, ROWS):
            write_rows(writer, row, row + 1)
            time.sleep(0.0005)
        writer.finalize(FINGERPRINT)


def test_killed_again_and_again_at_random_moments(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    draw, kills, attempts = random.Random(5), 0, 0
    began = time.monotonic()
    os.waitpid(start(lambda: slowly(tmp_path / "timed")), 0)
    duration_s = time.monotonic() - began
    while kills < 40:
        attempts += 1
        assert attempts < 200
        directory = tmp_path / str(attempts)
        rows = 0
        for _ in range(draw.randint(1, 4)):
            child = start(lambda: slowly(directory))  # noqa: B023 - the child runs at once
            time.sleep(draw.random() * duration_s)
            os.kill(child, signal.SIGKILL)
            kills += os.WIFSIGNALED(os.waitpid(child, 0)[1])
            assert check_prefix(directory) >= rows
            rows = check_prefix(directory)
        write_store(directory)
        assert contents(directory) == undisturbed


class Disk:
    """What a power cut at each sync would leave: each file as of its last sync, and any part of what came since."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self.directory = directory
        self.synced: dict[str, bytes] = {}
        self.moments: list[tuple[dict[str, bytes], dict[str, bytes]]] = []
        real = os.fsync

        def sync(descriptor: int) -> None:
            real(descriptor)
            path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115
            if path.parent == directory and path.is_file():
                self.synced[path.name] = path.read_bytes()
            now = contents(directory) if directory.is_dir() else {}
            self.moments.append((dict(self.synced), now))

        patch.setattr(os, "fsync", sync)


LOGGED = ("states.bin", "mask.bin", "scale.bin", "sidecars.jsonl", "manifest.jsonl")


def test_a_power_cut_that_drops_unsynced_bytes_in_any_order(
    tmp_path: Path, undisturbed: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file of the log and the data keeps what was synced of it, and any part of what was written since."""
    draw = random.Random(7)
    with monkeypatch.context() as patch:
        disk = Disk(tmp_path / "s", patch)
        write_store(tmp_path / "s")
    checked = 0
    for number, (synced, now) in enumerate(disk.moments):
        if "_COMPLETE" in now:
            finished = {name: data for name, data in now.items() if name not in {"_COMPLETE", *LOGGED}}
            assert finished.items() <= synced.items(), "the marker was there before something else was on disk"
        if "_COMPLETE" in now or "manifest.jsonl" not in now:
            continue
        for variant in range(3):
            directory = tmp_path / f"cut{number}.{variant}"
            directory.mkdir()
            for name in LOGGED:
                safe, written = synced.get(name, b""), now.get(name, b"")
                if name == "manifest.jsonl" and name not in synced:
                    # Its first version is renamed into place after its own sync.
                    safe = written
                more = draw.choice([0, draw.randint(0, len(written) - len(safe)), len(written) - len(safe)])
                lost = bytearray(written[: len(safe) + more])
                if more and draw.random() < 0.5:
                    lost[len(safe) :] = bytes(more)
                (directory / name).write_bytes(bytes(lost))
            rows = check_prefix(directory)
            committed = synced.get("manifest.jsonl", b"").count(b'"rows":')
            assert rows >= 8 * min(committed, 2)
            write_store(directory)
            assert contents(directory) == undisturbed
            checked += 1
    assert checked > 60


def resumable_plan(log: list[int], *, at_row: Callable[[int], None] = lambda _: None) -> BuildPlan:
    def write(directory: Path) -> BuildReport:
        with open_writer(directory) as writer:
            log.append(writer.n_rows)
            for row in range(writer.n_rows, ROWS):
                at_row(row)
                write_rows(writer, row, row + 1)
            writer.finalize(FINGERPRINT)
        return BuildReport({"rows": ROWS}, {"index.parquet": ROWS})

    return replace(make_plan(), write=write, resumable=True)


@pytest.mark.slow
def test_a_build_killed_at_every_call_goes_on_and_is_published(tmp_path: Path) -> None:
    undisturbed = build(Root(tmp_path / "undisturbed"), resumable_plan([])).manifest.to_bytes()
    roots: list[Root] = []

    def prepare() -> Callable[[], object]:
        roots.append(new_root(tmp_path / str(len(roots)), lock_wait_s=0))
        return lambda: build(roots[-1], resumable_plan([]))

    resumed = set()
    for _ in kill_points(prepare):
        root, log = roots[-1], []
        published = build(root, resumable_plan(log))
        resumed.update(log)
        assert published.manifest.to_bytes() == undisturbed
        assert root.leftovers(LOCATION) == []
        assert verify_root(root) == []
        reader = ArrayStoreReader(open_input(root, ARTEFACT, LOCATION, contents="sizes").directory, check=True)
        np.testing.assert_array_equal(reader.get_rows(np.arange(ROWS), "states"), values(0, ROWS)["states"])
    assert resumed == {0, 8, 16, ROWS}
