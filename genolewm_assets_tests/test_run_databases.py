from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest

from genolewm_assets.defs.operations.demo import Demo
from genolewm_assets.defs.operations.release_job import register_offered
from genolewm_assets.errors import BusyError, ResourceError
from genolewm_assets.progress import NO_PROGRESS, ByteCount
from genolewm_assets.run_databases import check_databases, database_errors
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld

FILES = ("history/runs.db", "history/runs/index.db", "schedules/schedules.db")
BROKEN: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "text": lambda path: path.write_text("not a database\n" * 999),
    "folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    shutil.copyfile(REPOSITORY / "dagster.yaml", folder / "dagster.yaml")
    with dg.DagsterInstance.from_config(str(folder)) as instance:
        instance.add_dynamic_partitions("clinvar_release", ["2025-01-05"])
    return folder


@pytest.mark.parametrize("fault", BROKEN)
@pytest.mark.parametrize("file", FILES)
def test_a_demo_names_the_database_that_is_broken(
    file: str, fault: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = TinyWorld(tmp_path / "world")
    broken = Path(shutil.copytree(home, world.root / "dagster"))
    BROKEN[fault](broken / file)
    monkeypatch.setenv("DAGSTER_HOME", str(broken))
    with (
        pytest.raises(ResourceError, match=r"Artefacts are safe.*move it away") as refused,
        Demo(dg.Definitions(), world.workspace()) as walk,
    ):
        register_offered(walk.workspace, walk.instance)
        walk.instance.get_ticks("no", "no")
    assert refused.value.where == str(broken / file)
    # What the message says works.
    shutil.rmtree(broken / file) if fault == "folder" else (broken / file).unlink()
    with Demo(dg.Definitions(), world.workspace()) as walk:
        assert register_offered(walk.workspace, walk.instance)


def test_whole_databases_are_left_as_they_are(home: Path) -> None:
    before = {file: (home / file).read_bytes() for file in FILES}
    check_databases(home)
    check_databases(home, thorough=True)
    assert {file: (home / file).read_bytes() for file in FILES} == before
    check_databases(home / "absent")


def test_a_full_disk_is_not_called_damage(home: Path) -> None:
    with pytest.raises(ResourceError, match=r"cannot be written.*Free some disk space"), database_errors(home):
        raise sqlite3.OperationalError("database or disk is full")


def test_a_database_in_use_is_not_called_damage(home: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(home, tmp_path / "home"))
    with closing(sqlite3.connect(folder / FILES[0], timeout=0)) as user:
        user.execute("PRAGMA journal_mode=DELETE")
        user.execute("BEGIN EXCLUSIVE")
        with (
            pytest.raises(BusyError, match="is in use"),
            database_errors(folder),
            closing(sqlite3.connect(folder / FILES[0], timeout=0)) as other,
        ):
            other.execute("BEGIN EXCLUSIVE")


def test_other_errors_pass(home: Path) -> None:
    with pytest.raises(ZeroDivisionError), database_errors(home):
        1 / 0  # noqa: B018


def test_a_page_that_is_broken_inside_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a%20 b.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table numbers (n)")
        database.executemany("insert into numbers values (?)", [(n,) for n in range(9_000)])
        database.commit()
    with path.open("r+b") as handle:
        handle.seek(3 * 4_096)
        handle.write(b"\xee" * 4_096)
    check_databases(tmp_path)
    with pytest.raises(ResourceError, match=r"a%20 b\.db"):
        check_databases(tmp_path, thorough=True)


class Listener:
    def __init__(self) -> None:
        self.seen: list[tuple[int, int | None, str]] = []

    def advance(self, done: int, total: int | None, unit: str) -> None:
        self.seen.append((done, total, unit))


def test_bytes_add_up_over_several_readers() -> None:
    listener = Listener()
    count = ByteCount(listener, 10)
    for size_bytes in (3, 0, 7):
        count.add(size_bytes)
    assert listener.seen == [(done, 10, "bytes hashed") for done in (3, 3, 10)]


def test_readers_that_are_found_later_add_to_the_total() -> None:
    listener = Listener()
    count = ByteCount(listener, 10)
    count.add(10)
    count.expect(5)
    count.add(5)
    assert listener.seen == [(10, 10, "bytes hashed"), (15, 15, "bytes hashed")]


def test_the_silent_listener_accepts_an_unknown_total() -> None:
    NO_PROGRESS.advance(1, None, "rows")
