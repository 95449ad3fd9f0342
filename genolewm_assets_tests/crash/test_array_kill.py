"""Kill -9 while an array store is written: what is resumed ends as an undisturbed build, to the last byte."""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.store import ArrayStoreReader
from genolewm_assets.store.artefacts.build import BuildPlan, BuildReport, build
from genolewm_assets.store.artefacts.inputs import open_input
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets_tests.faults.file_layer import without_syncs
from genolewm_assets_tests.faults.kill_points import KillPoints
from genolewm_assets_tests.faults.killing import start
from genolewm_assets_tests.worlds.store.array_stores import (
    FINGERPRINT,
    contents,
    finish,
    open_writer,
    values,
    write_rows,
)
from genolewm_assets_tests.worlds.store.interrupted_store import ROWS, check_prefix, write_store
from genolewm_assets_tests.worlds.store.plans import ARTEFACT, LOCATION, make_plan, new_root


@pytest.fixture(autouse=True)
def no_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    without_syncs(monkeypatch)


@pytest.fixture
def undisturbed(tmp_path: Path) -> dict[str, bytes]:
    return contents(finish(tmp_path / "undisturbed", ROWS))


def test_killed_at_every_call(tmp_path: Path, undisturbed: dict[str, bytes], kill_points: KillPoints) -> None:
    """Every open, write (torn too), truncation, sync, rename and removal."""
    seen: list[int] = []
    directories: list[Path] = []

    def prepare() -> Callable[[], object]:
        directories.append(tmp_path / str(len(directories)))
        return lambda: write_store(directories[-1])

    for _ in kill_points(prepare, lambda: directories[-1], writes=True):
        seen.append(check_prefix(directories[-1]))
        write_store(directories[-1])
        assert contents(directories[-1]) == undisturbed
    assert set(seen) == {0, 8, 16, ROWS}
    assert seen == sorted(seen), "a later kill never leaves fewer rows"
    assert kill_points.last >= 60


def test_killed_at_every_call_of_the_resumption_too(
    tmp_path: Path, undisturbed: dict[str, bytes], kill_points: KillPoints
) -> None:
    directories: list[Path] = []

    def prepare() -> Callable[[], object]:
        directories.append(tmp_path / str(len(directories)))
        with open_writer(directories[-1]) as writer:
            write_rows(writer, 0, 11)
        with (directories[-1] / "states.bin").open("ab") as handle:
            handle.write(b"torn")
        return lambda: write_store(directories[-1])

    for _ in kill_points(prepare, lambda: directories[-1], writes=True):
        assert check_prefix(directories[-1]) >= 11
        write_store(directories[-1])
        assert contents(directories[-1]) == undisturbed
    assert kill_points.last >= 40


def test_killed_at_a_byte_of_a_file(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    """A limit on the size of files kills at exactly one byte of the first file that is longer, whoever writes it."""
    directory, longest = tmp_path / "s", set()

    def write_within(size_bytes: int) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, size_bytes))
        write_store(directory)

    for size_bytes in range(1, 20_000, 97):
        _, status = os.waitpid(start(lambda: write_within(size_bytes)), 0)  # noqa: B023 - the child runs at once
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0
            break
        assert os.WTERMSIG(status) == signal.SIGXFSZ
        longest |= {path.name for path in directory.iterdir() if path.stat().st_size == size_bytes}
        check_prefix(directory)
    assert {"states.bin", "manifest.jsonl", "index.parquet"} <= longest
    assert contents(directory) == undisturbed


@pytest.mark.parametrize("least", [40, pytest.param(200, marks=pytest.mark.nightly)])
def test_killed_at_random_moments(tmp_path: Path, least: int) -> None:
    n_rows, draw, kills = 40, random.Random(5), 0
    undisturbed, resumed = contents(finish(tmp_path / "undisturbed", n_rows)), set()
    attempt, rows, directory, within_s = 0, 0, tmp_path / "0", 0.02
    while kills < least:
        child = start(lambda: write_store(directory, n_rows=n_rows, step=2))  # noqa: B023 - the child runs at once
        time.sleep(draw.random() * within_s)
        os.kill(child, signal.SIGKILL)
        killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
        kills += killed
        # As long as it takes here and now, so that about every other one is killed.
        within_s *= 1.05 if killed else 0.9
        before, rows = rows, check_prefix(directory)
        assert rows >= before
        resumed.add(rows)
        if not killed or draw.random() < 0.3:
            write_store(directory, n_rows=n_rows)
            assert contents(directory) == undisturbed
            attempt, rows = attempt + 1, 0
            directory = tmp_path / str(attempt)
    assert {0, n_rows} < resumed


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


def test_a_build_killed_at_every_call_goes_on_and_is_published(tmp_path: Path, kill_points: KillPoints) -> None:
    undisturbed = build(Root(tmp_path / "undisturbed"), resumable_plan([])).manifest.to_bytes()
    roots: list[Root] = []

    def prepare() -> Callable[[], object]:
        roots.append(new_root(tmp_path / str(len(roots)), lock_wait_s=0))
        return lambda: build(roots[-1], resumable_plan([]))

    resumed = []
    for _ in kill_points(prepare, lambda: roots[-1].path, writes=True):
        root = roots[-1]
        log: list[int] = []
        published = build(root, resumable_plan(log))
        # Without a log it was published already.
        resumed.append(log[0] if log else ROWS)
        assert published.manifest.to_bytes() == undisturbed
        assert root.leftovers(LOCATION) == []
        assert verify_root(root) == []
        reader = ArrayStoreReader(open_input(root, ARTEFACT, LOCATION, contents="sizes").directory, check=True)
        np.testing.assert_array_equal(reader.get_rows(np.arange(ROWS), "states"), values(0, ROWS)["states"])
    assert set(resumed) == {0, 8, 16, ROWS}
    assert resumed == sorted(resumed), "a later kill never costs more rows"
