"""Backup and restore: while builds and gc go on, after damage, after a crash, into another place."""

from __future__ import annotations

import fcntl
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.instance import InstanceRef

from genolewm_assets.definitions import defs
from genolewm_assets.defs.assets.graph import GATED
from genolewm_assets.defs.runtime.settings import WorkspaceResource
from genolewm_assets.defs.runtime.workspace import Workspace
from genolewm_assets.errors import RejectedResourceError
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets_tests.deploy.installation import REPOSITORY, Installation
from genolewm_assets_tests.live.harness import wait_until
from genolewm_assets_tests.servers.postgres import PostgresServer
from genolewm_assets_tests.worlds.graph import small_root
from genolewm_assets_tests.worlds.graph.small_root import LOCATIONS
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld
from genolewm_assets_tests.worlds.store.damages import keep_time, overwrite

GENOME, GNOMAD = "reference/genome", "gnomad/shard"


@pytest.fixture
def small(database: PostgresServer, world: TinyWorld, tmp_path: Path) -> Installation:
    """An installation with a small root and an empty database."""
    made = Installation(tmp_path / "machine", database, world.catalog)
    small_root.create(made.root)
    return made


def complete(installation: Installation) -> list[Path]:
    return sorted(path for path in installation.backups.iterdir() if path.name.endswith("Z"))


def wait_for_next_second() -> None:
    """Backups are named by the second."""
    now = int(time.time())
    wait_until(lambda: int(time.time()) > now, "the next second", every_s=0.02)


def back_up(installation: Installation, **more: str) -> Path:
    """Make a backup and return it."""
    before = complete(installation)
    if before:
        wait_for_next_second()
    done = installation.run("backup", **more)
    assert done.returncode == 0, done.stdout + done.stderr
    (new,) = set(complete(installation)) - set(before)
    return new


def faults(root: Path) -> list[str]:
    return [str(finding) for finding in verify_root(Root(root)) if finding.is_fault]


def before_rsync(folder: Path, installation: Installation, command: str, *, of: str) -> str:
    """Return a PATH on which a command runs before each call of rsync that has an argument."""
    folder.mkdir(exist_ok=True)
    script = folder / "rsync"
    script.write_text(
        f'#!/bin/bash\nfor argument in "$@"; do [ "$argument" = "{of}" ] && {{ {command} ; }}; done\n'
        f'exec "{shutil.which("rsync")}" "$@"\n'
    )
    script.chmod(0o755)
    return f"{folder}:{installation.environment()['PATH']}"


def publishing(installation: Installation, *then: str) -> str:
    """Return a command that publishes another version of everything each time."""
    module = f"{sys.executable} -m genolewm_assets_tests.worlds.graph.small_root"
    return f"(cd {REPOSITORY} && {module} {installation.root} $$ {' '.join(then)}) 9>&-"


GENERATIONS = "--include=.gen/***"


def test_backup_is_a_root_that_verifies_and_a_dump(small: Installation) -> None:
    backup = back_up(small)
    assert faults(backup / "root") == []
    for location in LOCATIONS:
        copied = (backup / "root" / location / "table.txt").read_text()
        assert copied == (small.root / location / "table.txt").read_text()
    assert (backup / "database.dump").read_bytes().startswith(b"PGDMP")
    assert not (backup / "root/work").exists()
    assert backup.stat().st_mode & 0o077 == 0
    secret = small.database.password.encode()
    assert not any(secret in path.read_bytes() for path in backup.rglob("*") if path.is_file())
    kept = {path.name for path in (backup / "configuration").iterdir()}
    assert kept == {"dagster.yaml", "workspace.yaml", "catalog.yaml", "packages.txt"}
    assert "dagster==" in (backup / "configuration/packages.txt").read_text()


def test_what_is_the_same_is_kept_once_and_old_backups_go(small: Installation) -> None:
    backups = [back_up(small, GENOLEWM_BACKUPS_VERIFY="no", GENOLEWM_BACKUPS_KEEP="2") for _ in range(3)]
    assert complete(small) == backups[1:]
    inodes = {(backup / "root" / LOCATIONS[0] / "table.txt").stat().st_ino for backup in backups[1:]}
    assert len(inodes) == 1


def test_database_is_not_newer_than_its_files(small: Installation, tmp_path: Path) -> None:
    own = small.database.create_database("own")
    late = "psql -Xqc 'CREATE TABLE IF NOT EXISTS made_meanwhile (id int)'"
    backup = back_up(small, PGDATABASE=own, PATH=before_rsync(tmp_path / "bin", small, late, of="--archive"))
    assert small.database.query("SELECT count(*) FROM made_meanwhile", database=own) == "0"
    assert b"made_meanwhile" not in (backup / "database.dump").read_bytes()


def test_versions_published_meanwhile_do_no_harm(small: Installation, tmp_path: Path) -> None:
    path = before_rsync(tmp_path / "bin", small, publishing(small), of=GENERATIONS)
    first = {location: (small.root / location).readlink() for location in LOCATIONS}
    backup = back_up(small, PATH=path)
    # The links are of one moment, the moment before.
    assert {location: (backup / "root" / location).readlink() for location in LOCATIONS} == first
    assert {location: (small.root / location).readlink() for location in LOCATIONS} != first


def test_gc_waits_for_a_backup(small: Installation, tmp_path: Path) -> None:
    path = before_rsync(tmp_path / "bin", small, publishing(small, "gc"), of=GENERATIONS)
    first = [(small.root / location).resolve() for location in LOCATIONS]
    done = small.run("backup", PATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "removed from the root meanwhile" not in done.stdout
    assert all(generation.is_dir() for generation in first)
    # It goes on once the backup is done.
    assert small.genolewm("gc", "--root", small.root).returncode == 0
    assert not any(generation.exists() for generation in first)


def test_what_vanished_all_the_same_is_noticed(small: Installation, tmp_path: Path) -> None:
    once = f"[ -e {tmp_path}/done ] || {{ touch {tmp_path}/done; {publishing(small, 'remove')}; }}"
    done = small.run("backup", PATH=before_rsync(tmp_path / "bin", small, once, of=GENERATIONS))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "removed from the root meanwhile (attempt 1 of 3)" in done.stdout
    (backup,) = complete(small)
    assert faults(backup / "root") == []


def test_links_that_change_while_they_are_copied_are_of_one_moment(small: Installation, tmp_path: Path) -> None:
    rsync = shutil.which("rsync")
    # The first copy of the links sees one of them before a new version of both, and one after it.
    torn = (
        f'[ -e {tmp_path}/torn ] || {{ touch {tmp_path}/torn; {rsync} "$@" --exclude=/{LOCATIONS[1]}; '
        f'{publishing(small)}; {rsync} "$@" --exclude=/{LOCATIONS[0]}; exit; }}'
    )
    backup = back_up(small, PATH=before_rsync(tmp_path / "bin", small, torn, of="--omit-dir-times"))
    versions = {(backup / "root" / location / "table.txt").read_text().split()[-1] for location in LOCATIONS}
    assert len(versions) == 1
    assert versions != {"first"}


def test_two_backups_at_once_are_one_too_many(small: Installation) -> None:
    lock = small.root / "work/backup/lock"
    lock.parent.mkdir(parents=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = small.run("backup")
    assert done.returncode == 1
    assert "another backup is running" in done.stderr
    assert complete(small) == []


def test_damaged_root_is_said_and_no_good_backup_lost_for_it(small: Installation) -> None:
    good = back_up(small)
    overwrite(small.root / LOCATIONS[0] / "table.txt")
    wait_for_next_second()
    done = small.run("backup", GENOLEWM_BACKUPS_KEEP="1")
    assert done.returncode == 4
    assert f"{LOCATIONS[0]}/table.txt" in done.stdout
    assert complete(small) == [good]
    assert len(list(small.backups.glob("*.faulty"))) == 1


def test_what_rotted_on_disk_does_not_rot_in_the_backup(small: Installation) -> None:
    back_up(small)
    keep_time(small.root / LOCATIONS[0] / "table.txt")
    assert faults(small.root) != []
    assert faults(back_up(small) / "root") == []


def test_killed_backup_leaves_nothing_that_looks_like_one(small: Installation, tmp_path: Path) -> None:
    path = before_rsync(tmp_path / "bin", small, "kill -9 $PPID; exit 1", of=GENERATIONS)
    assert small.run("backup", PATH=path).returncode == -9
    assert complete(small) == []
    assert faults(back_up(small) / "root") == []


@pytest.mark.parametrize("wrong", ["PGPASSWORD", "PGPORT"])
def test_database_that_cannot_be_reached_leaves_nothing(small: Installation, wrong: str) -> None:
    done = small.run("backup", **{wrong: "1"})
    assert done.returncode != 0
    assert "failed" in done.stderr
    assert list(small.backups.iterdir()) == []


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("GENOLEWM_ROOT", "/nowhere", "not a root"),
        ("GENOLEWM_BACKUPS", "/nowhere", "no such folder"),
        ("GENOLEWM_BACKUPS_KEEP", "0", "not a number of backups"),
        ("GENOLEWM_BACKUPS_VERIFY", "maybe", "expected yes or no"),
    ],
)
def test_settings_that_make_no_sense_are_named(small: Installation, setting: str, value: str, said: str) -> None:
    done = small.run("backup", **{setting: value})
    assert done.returncode == 1
    assert said in done.stderr


@pytest.fixture
def elsewhere(small: Installation, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Another folder and another database."""
    name = small.database.create_database(f"restored{time.monotonic_ns()}")
    yield {"GENOLEWM_ROOT": str(tmp_path / "elsewhere"), "PGDATABASE": name}


def test_restore_into_what_is_not_empty_is_refused(small: Installation, elsewhere: dict[str, str]) -> None:
    backup = back_up(small, GENOLEWM_BACKUPS_VERIFY="no")
    taken = Path(elsewhere["GENOLEWM_ROOT"])
    taken.mkdir()
    (taken / "thesis.tex").write_text("years of work")
    done = small.run("restore", backup, **elsewhere)
    assert done.returncode == 1
    assert "not empty" in done.stderr
    assert list(taken.iterdir()) == [taken / "thesis.tex"]
    (taken / "thesis.tex").unlink()
    small.database.query("CREATE TABLE runs (id int)", database=elsewhere["PGDATABASE"])
    done = small.run("restore", backup, **elsewhere)
    assert done.returncode == 1
    assert "holds 1 tables" in done.stderr
    assert list(taken.iterdir()) == []


def test_half_a_backup_is_refused(small: Installation, elsewhere: dict[str, str]) -> None:
    backup = back_up(small, GENOLEWM_BACKUPS_VERIFY="no")
    for missing in ("database.dump", "root/root.json"):
        (backup / missing).rename(backup / "aside")
        done = small.run("restore", backup, **elsewhere)
        assert done.returncode == 1
        assert "not a backup" in done.stderr
        assert not Path(elsewhere["GENOLEWM_ROOT"]).exists()
        (backup / "aside").rename(backup / missing)
    dump = backup / "database.dump"
    dump.write_bytes(dump.read_bytes()[:-100])
    assert small.run("restore", backup, **elsewhere).returncode != 0
    assert not (Path(elsewhere["GENOLEWM_ROOT"]) / "root.json").exists()
    tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"
    assert small.database.query(tables, database=elsewhere["PGDATABASE"]) == "0"


def test_interrupted_restore_is_no_root_and_goes_on(
    small: Installation, elsewhere: dict[str, str], tmp_path: Path
) -> None:
    backup = back_up(small, GENOLEWM_BACKUPS_VERIFY="no")
    broken = tmp_path / "broken" / "pg_restore"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    path = f"{broken.parent}:{small.environment()['PATH']}"
    assert small.run("restore", backup, **elsewhere, PATH=path).returncode == 1
    assert small.genolewm("verify", "--root", elsewhere["GENOLEWM_ROOT"]).returncode == 4
    done = small.run("restore", backup, **elsewhere)
    assert done.returncode == 0, done.stdout + done.stderr
    assert faults(Path(elsewhere["GENOLEWM_ROOT"])) == []
    assert not (Path(elsewhere["GENOLEWM_ROOT"]) / ".restoring").exists()


@contextmanager
def instance_of(installation: Installation, patch: pytest.MonkeyPatch, **more: str) -> Iterator[dg.DagsterInstance]:
    for name, value in installation.environment(**more).items():
        patch.setenv(name, value)
    with dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(installation.etc))) as opened:
        yield opened


def materialize(
    instance: dg.DagsterInstance, root: Path, catalog: Path, asset: str, partition: str | None = None
) -> dg.ExecuteInProcessResult:
    return dg.materialize(
        list(defs.assets or []),
        instance=instance,
        partition_key=partition,
        selection=dg.AssetSelection.assets(dg.AssetKey(asset.split("/"))),
        resources={"workspace": WorkspaceResource(root=str(root), catalog=str(catalog))},
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        raise_on_error=False,
    )


def known(instance: dg.DagsterInstance) -> dict[str, object]:
    """Return what the instance knows of the two assets: latest run, version and partitions."""
    keys = {asset: dg.AssetKey(asset.split("/")) for asset in (GENOME, GNOMAD)}
    events = {asset: instance.get_latest_materialization_event(key) for asset, key in keys.items()}
    facts: dict[str, object] = {
        asset: (event.run_id, event.asset_materialization and event.asset_materialization.tags)
        for asset, event in events.items()
        if event is not None
    }
    facts["partitions"] = instance.get_materialized_partitions(keys[GNOMAD])
    facts["runs"] = sorted((run.run_id, run.status.value) for run in instance.get_runs())
    return facts


def test_restored_elsewhere_everything_is_known_and_nothing_is_built_again(
    database: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = TinyWorld(tmp_path / "sources")
    machine = Installation(tmp_path / "machine", database, world.catalog)
    first = {"PGDATABASE": database.create_database("first")}
    with instance_of(machine, monkeypatch, **first) as instance:
        for asset, partition in ((GENOME, None), (GNOMAD, "chr17"), (GNOMAD, "chr20")):
            assert materialize(instance, machine.root, world.catalog, asset, partition).success
        # A failed rebuild: its marker is what keeps its last good version from consumers.
        world.write_gnomad("chr20", world.gnomad_records("chr20", wrong_ref=5))
        assert not materialize(instance, machine.root, world.catalog, GNOMAD, "chr20").success
        before = known(instance)
    assert before["partitions"] == {"chr17", "chr20"}
    backup = back_up(machine, **first)

    shutil.rmtree(machine.root)
    database.query("DROP DATABASE first WITH (FORCE)")
    there = tmp_path / "elsewhere"
    second = {"PGDATABASE": database.create_database("second"), "GENOLEWM_ROOT": str(there)}
    done = machine.run("restore", backup, **second)
    assert done.returncode == 0, done.stdout + done.stderr
    verified = machine.genolewm("verify", "--root", there)
    assert (verified.returncode, verified.stdout.splitlines()[-1][:8]) == (0, "0 faults")

    moved = {"GENOLEWM_RUN_LOGS": str(there / "dagster/logs"), "GENOLEWM_RUN_FILES": str(there / "dagster")}
    with instance_of(machine, monkeypatch, **second, **moved) as instance:
        assert known(instance) == before
        with pytest.raises(RejectedResourceError):
            GATED[GNOMAD].open(Workspace.open(there, str(world.catalog)), "chr20")
        again = materialize(instance, there, world.catalog, GNOMAD, "chr17")
        (event,) = again.asset_materializations_for_node("gnomad__shard")
        assert event.metadata["reused"].value is True
        run_id = before["runs"][0][0]  # type: ignore[index]
        assert any(run_id in path.parts for path in (there / "dagster/logs").rglob("*.err"))
