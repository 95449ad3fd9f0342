from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import dagster as dg
import pytest

from genolewm_assets.defs.operations.demo import Demo
from genolewm_assets.defs.operations.release_job import register_offered
from genolewm_assets.defs.read_only_instance import open_read_only
from genolewm_assets.defs.run_databases import check_databases, database_errors, described
from genolewm_assets.errors import BusyError, CorruptResourceError, ResourceError
from genolewm_assets.progress import ByteCount
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.ui_server import serving
from genolewm_assets_tests.defs.conftest import CommandLine
from genolewm_assets_tests.faults.killing import outcome
from genolewm_assets_tests.faults.small_disk import SmallDisk, on_small_disk
from genolewm_assets_tests.heard import Heard
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.servers.programs import free_port
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld

FILES = ("history/runs.db", "history/runs/index.db", "schedules/schedules.db")
BROKEN: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "text": lambda path: path.write_text("not a database\n" * 999),
    "folder": lambda path: (path.unlink(), path.mkdir()),
    "fifo": lambda path: (path.unlink(), os.mkfifo(path)),
    "link": lambda path: (path.unlink(), path.symlink_to("nowhere")),
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
    file: str, fault: str, home: Path, world: TinyWorld, genolewm: CommandLine
) -> None:
    broken = Path(shutil.copytree(home, world.root / "dagster"))
    BROKEN[fault](broken / file)
    os.environ["DAGSTER_HOME"] = str(broken)
    with (
        pytest.raises(CorruptResourceError, match=r"is damaged.*Artefacts are safe.*history reset --root") as refused,
        Demo(dg.Definitions(), world.workspace()) as walk,
    ):
        register_offered(walk.workspace, walk.instance)
        walk.instance.get_ticks("no", "no")
    assert refused.value.where == str(broken / file)
    # What the message says works.
    assert genolewm("history", "reset", "--yes", "--root", world.root) == 0
    with Demo(dg.Definitions(), world.workspace()) as walk:
        assert register_offered(walk.workspace, walk.instance)


def test_whole_databases_are_left_as_they_are(home: Path) -> None:
    before = {file: (home / file).read_bytes() for file in FILES}
    for folder, thorough in ((home, False), (home, True), (home / "absent", False)):
        check_databases(folder, thorough=thorough)
    assert {file: (home / file).read_bytes() for file in FILES} == before


def failing(home: Path, action: Callable[[], object]) -> str:
    """Return what is said of an action of Dagster that fails."""
    with pytest.raises(ResourceError) as told, database_errors(home):
        action()
    assert not isinstance(told.value, CorruptResourceError)
    return str(told.value)


def grow(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE filler AS SELECT randomblob(9000000) AS bytes")


def test_a_full_disk_is_not_called_damage(home: Path, tmp_path: Path) -> None:
    def fill(disk: SmallDisk) -> list[str]:
        folder = Path(shutil.copytree(home, disk.folder / "dagster"))
        told = []
        for free_bytes in (300 << 10, 0):
            disk.leave(free_bytes)
            told.append(failing(folder, lambda: grow(folder / FILES[0])))
        # With no room for its log, SQLite cannot even read, and says what it says of damage.
        (folder / f"{FILES[1]}-wal").touch()
        (folder / f"{FILES[1]}-shm").unlink(missing_ok=True)
        looks = [partial(check_databases, folder, thorough=thorough) for thorough in (False, True)]
        return [*told, *(failing(folder, look) for look in looks)]

    said = on_small_disk(tmp_path / "disk", fill)
    assert said.count("its file system is full") == 4, said
    assert "history reset" not in said


def test_files_that_this_user_may_not_read_are_not_called_damage(home: Path) -> None:
    def look() -> str:
        if not os.getuid():
            os.setuid(65_534)
        return failing(folder, partial(check_databases, folder))

    # The folders of tests are closed to others.
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        folder = Path(shutil.copytree(home, f"{place}/home"))
        for path in (Path(place), folder, *folder.rglob("*")):
            path.chmod(0o755)
        (folder / FILES[1]).chmod(0)
        assert "this user may not (unable to open database file). Let this user read" in outcome(look)


@each_row(
    "kind, text, cause",
    [
        ("SQLITE_IOERR_READ", "disk I/O error", "the disk failed"),
        ("SQLITE_READONLY", "attempt to write a readonly database", "this user may not"),
        ("SQLITE_FULL", "database or disk is full", "its file system is full"),
    ],
)
def test_the_cause_that_sqlite_names_is_told(kind: str, text: str, cause: str, home: Path) -> None:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorname = kind
    told = described(home, error)
    assert f"cannot be read or written: {cause} ({text})" in str(told)
    assert not isinstance(told, CorruptResourceError)


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
    path = tmp_path / "history/a%20 b.db"
    path.parent.mkdir()
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


def test_bytes_add_up_over_several_readers_also_those_found_later() -> None:
    count = ByteCount(seen := Heard(), 10)
    for size_bytes in (3, 0, 7):
        count.add(size_bytes)
    count.expect(5)
    count.add(5)
    assert [told[:2] for told in seen] == [(3, 10), (3, 10), (10, 10), (15, 15)]


@pytest.fixture
def root(home: Path, tmp_path: Path) -> Path:
    shutil.copytree(home, tmp_path / "root/dagster")
    (tmp_path / "root/packages").mkdir()
    (tmp_path / "root/packages/current.json").write_text("{}")
    return tmp_path / "root"


def test_a_ui_is_not_started_on_pages_that_are_broken_inside(
    root: Path, monkeypatch: pytest.MonkeyPatch, genolewm: CommandLine
) -> None:
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("servers were started"))
    with (root / "dagster" / FILES[0]).open("r+b") as handle:
        handle.seek(4 * 4_096)
        handle.write(bytes(8 * 4_096))
    assert genolewm("ui", "--root", root, "--port", free_port()) == 4
    (line,) = genolewm.err.splitlines()
    assert f"{FILES[0]}: Dagster's database is damaged" in line


def kept(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_a_history_is_moved_aside_and_begun(root: Path, monkeypatch: pytest.MonkeyPatch, genolewm: CommandLine) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert genolewm("history", "reset", "--root", root) == 1  # a person said no
    assert {"packages/current.json", "dagster/dagster.yaml", f"dagster/{FILES[0]}"} <= kept(root)
    assert genolewm("history", "reset", "--yes", "--json", "--root", root) == 0
    told = json.loads(genolewm.out)
    assert told["runs"] == 0
    moved = Path(told["moved_to"]).relative_to(root)
    assert {f"{moved}/{file}" for file in FILES} | {"packages/current.json", "dagster/dagster.yaml"} <= kept(root)
    assert open_read_only(root / "dagster") is None
    # What was moved aside, damaged or not, is no database of the new history.
    (root / moved / FILES[0]).write_text("damaged")
    check_databases(root / "dagster")
    with dg.DagsterInstance.from_config(str(root / "dagster")) as begun:
        assert begun.get_dynamic_partitions("clinvar_release") == []
    assert genolewm("history", "reset", "--yes", "--delete", "--root", root) == 0
    assert "0 runs deleted; lost: runs with their logs" in genolewm.out
    assert not any(f"dagster/{file}" in kept(root) for file in FILES)
    assert genolewm("history", "reset", "--yes", "--root", root) == 4
    assert "has no history of runs" in genolewm.err


def test_a_history_in_use_stays(root: Path, genolewm: CommandLine) -> None:
    def refused(said: str) -> None:
        assert genolewm("history", "reset", "--yes", "--root", root) == 4
        assert said in genolewm.err
        assert f"dagster/{FILES[0]}" in kept(root)

    with serving(root / "dagster", 3000):
        refused("the UI of this root is already served at http://127.0.0.1:3000")
    with Root(root).lock("demo"):
        refused("another process")
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)", "dagster-daemon"]
    environment = {**os.environ, "DAGSTER_HOME": str(root / "dagster")}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as daemon:
        try:
            daemon.stdout.readline()
            refused(f"process {daemon.pid} uses the history")
        finally:
            daemon.kill()
    assert genolewm("history", "reset", "--yes", "--root", root) == 0


def test_a_history_on_a_server_is_not_reset(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, genolewm: CommandLine
) -> None:
    (tmp_path / "dagster.yaml").write_text("storage:\n  postgres:\n    postgres_url: postgresql://me:secret@db/runs\n")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    assert genolewm("history", "reset", "--yes", "--root", root) == 3
    (line,) = genolewm.err.splitlines()
    assert line.startswith(f"{tmp_path}/dagster.yaml: the history does not lie in the root, but in the storage that")
    assert f"dagster/{FILES[0]}" in kept(root)
