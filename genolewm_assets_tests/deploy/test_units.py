"""systemd units: accepted by systemd, hardened, and what they start listens on loopback only and does its work."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from filelock import FileLock

from genolewm_assets.launch import WORKING_FOLDER
from genolewm_assets.store.files import generations_of
from genolewm_assets_tests.deploy.installation import UNITS, Installation, settings_of
from genolewm_assets_tests.deploy.sessions import kill_session, listening, members
from genolewm_assets_tests.live.engine_steps import launched_again
from genolewm_assets_tests.live.graphql import GraphQL
from genolewm_assets_tests.live.harness import wait_until
from genolewm_assets_tests.servers.programs import free_port, program
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld

SERVICES = ("code", "webserver", "daemon", "backup")
SERVERS = ("code", "webserver", "daemon")


def unit(name: str) -> dict[str, str]:
    return settings_of((UNITS / f"genolewm-{name}.service").read_text())


def analyze(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [program("systemd-analyze"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def units(installation: Installation, tmp_path: Path) -> Path:
    """The units with the programs of this checkout, so that systemd finds them; a user that exists everywhere."""
    folder = tmp_path / "units"
    shutil.copytree(UNITS, folder)
    for path in folder.rglob("*.*"):
        if path.is_file():
            path.write_text(installation.moved(path.read_text()))
    return folder


def test_systemd_accepts_every_unit(units: Path) -> None:
    names = sorted(path.name for path in units.iterdir() if path.is_file())
    assert len(names) == len(SERVICES) + 2
    done = analyze(units, "verify", "--man=no", *(f"./{name}" for name in names))
    # Also what it only warns of (an unknown setting), and nothing about the units of this machine.
    said = [line for line in (done.stdout + done.stderr).splitlines() if "genolewm" in line]
    assert said == []


@pytest.mark.parametrize("name", SERVICES)
def test_services_are_confined(name: str, tmp_path: Path) -> None:
    shutil.copytree(UNITS, tmp_path / "etc/systemd/system")
    done = analyze(
        tmp_path, "security", "--offline=yes", f"--root={tmp_path}", "--threshold=20", f"genolewm-{name}.service"
    )
    assert done.returncode == 0, done.stdout


def test_only_what_a_service_writes_is_writable() -> None:
    common = settings_of((UNITS / "genolewm-.service.d/common.conf").read_text())
    assert {common["User"], common["ProtectSystem"], common["NoNewPrivileges"]} == {"genolewm", "strict", "yes"}
    writable = {
        name: settings_of((UNITS / f"genolewm-{name}.service").read_text()).get("ReadWritePaths") for name in SERVICES
    }
    assert writable == {
        "code": "/srv/genolewm",
        "webserver": None,
        "daemon": "/srv/genolewm/dagster",
        "backup": "-/srv/genolewm/work /var/backups/genolewm",
    }


@pytest.fixture(scope="module")
def running(installation: Installation) -> Iterator[Installation]:
    installation.start(*SERVERS)
    try:
        wait_until(lambda: is_up(installation), "the servers to start")
        yield installation
    finally:
        for name in SERVERS:
            sys.stderr.write(f"--- {name}\n{installation.log(name).read_text()[-2_000:]}\n")


def is_up(installation: Installation) -> bool:
    for name, process in installation.processes.items():
        assert process.poll() is None, f"{name} ended:\n{installation.log(name).read_text()[-4_000:]}"
    try:
        return installation.graphql.is_loaded() and installation.graphql.daemon_is_healthy()
    except OSError:
        return False


def test_servers_listen_on_loopback_or_not_at_all(running: Installation) -> None:
    heard = {name: listening(process.pid) for name, process in running.processes.items()}
    assert heard == {"code": set(), "webserver": {("127.0.0.1", running.port)}, "daemon": set()}
    assert (running.folder / "run/code.sock").is_socket()
    assert unit("code")["RuntimeDirectoryMode"] == "0750"


def test_a_run_writes_below_the_root_and_nothing_into_the_configuration(running: Installation) -> None:
    before = digests(running.etc)
    run = running.graphql.wait_for_run(running.graphql.launch("reference/genome"))
    assert run.status == "SUCCESS", running.graphql.step_failures(run.id)
    logs = list((running.root / "dagster/logs").rglob("*.err"))
    assert any(run.id in path.parts for path in logs)
    assert digests(running.etc) == before


def test_a_failed_asset_is_not_tried_again(running: Installation, world: TinyWorld) -> None:
    source = world.folder / "gnomad.chr20.vcf.bgz"
    good = source.read_bytes()
    source.write_bytes(good[:-40])
    run = running.graphql.wait_for_run(running.graphql.launch("gnomad/shard", "chr20"))
    source.write_bytes(good)
    assert run.status == "FAILURE"
    wait_until(lambda: "dagster/will_retry" in running.graphql.run(run.id).tags, "the decision about another try")
    assert running.graphql.run(run.id).tags["dagster/will_retry"] == "false"


def test_a_run_lost_with_its_code_server_is_run_again(running: Installation) -> None:
    graphql = running.graphql
    assert graphql.wait_for_run(graphql.launch("reference/genome")).status == "SUCCESS"
    lock = running.root / "work" / "gnomad~4.1~chr17" / "lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(lock):
        lost = graphql.launch("gnomad/shard", "chr17")
        wait_until(lambda: graphql.run(lost).status == "STARTED", "the run to start")
        # As systemd does: the daemon goes with the code server and comes back with it. One that is there meanwhile
        # finds the run lost and cannot launch it again, and does not try a second time.
        assert unit("daemon")["BindsTo"] == "genolewm-code.service"
        assert unit("code")["Upholds"] == "genolewm-daemon.service"
        running.kill("code", "daemon")
    running.start("code", "daemon")
    again = launched_again(graphql, lost)
    assert graphql.wait_for_run(again).status == "SUCCESS"
    assert graphql.run(lost).status == "FAILURE"
    made = [each.run_id for each in graphql.materializations("gnomad/shard", "chr17")]
    assert [run_id for run_id in made if run_id in {lost, again}] == [again]
    assert len(generations_of(running.root / "gnomad/4.1/chr17")) == 1


def test_genolewm_ui_listens_on_loopback_only_and_imports_nothing_from_where_it_is_called(
    world: TinyWorld, tmp_path: Path
) -> None:
    port = free_port()
    command = [str(Path(sys.executable).with_name("genolewm")), "ui", "--root", str(tmp_path / "root")]
    command += ["--catalog", str(world.catalog), "--port", str(port)]
    here = tmp_path / "here"
    here.mkdir()
    for name in ("click", "toposort", "pysam"):
        (here / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'a').write('{name} ')\n")
    (here / ".env").write_text(f"GENOLEWM_CATALOG={here}/another.yaml\n")
    environment = {**os.environ, "GENOLEWM_EXECUTOR": "multiprocess"}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=here, env=environment, start_new_session=True)
    graphql = GraphQL(f"http://127.0.0.1:{port}")
    try:
        wait_until(lambda: ("127.0.0.1", port) in listening(process.pid), "the web server to listen")
        wait_until(lambda: loaded(graphql), "the graph to be loaded")
        # The run's process and that of its step come after the daemon and the code server.
        run = graphql.wait_for_run(graphql.launch("reference/genome"))
        assert run.status == "SUCCESS", graphql.step_failures(run.id)
        assert {address for address, _ in listening(process.pid)} <= {"127.0.0.1", "::1"}
        folders = {str(Path(f"/proc/{pid}/cwd").readlink()) for pid in members(process.pid)}
        assert (len(members(process.pid)) >= 3, folders) == (True, {str(WORKING_FOLDER)})
        assert not (tmp_path / "imported").exists()
    finally:
        kill_session(process)


def loaded(graphql: GraphQL) -> bool:
    with suppress(OSError):
        return graphql.is_loaded()
    return False


def digests(folder: Path) -> dict[str, str]:
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}
