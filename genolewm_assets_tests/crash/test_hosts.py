"""Builders on two hosts in one root, as containers on one kernel and as machines: each partition is built once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from genolewm_assets.store.artefacts.build import build, is_current
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets_tests.faults.hosts import need_hosts, on_host
from genolewm_assets_tests.worlds.store.leases import silence, wait_for
from genolewm_assets_tests.worlds.store.plans import new_root, numbered_plan, picture

pytestmark = [pytest.mark.nightly, pytest.mark.disk, pytest.mark.usefixtures("hosts")]

PARTITIONS = 20
KINDS = pytest.mark.parametrize("own_boot", [False, True], ids=["containers", "machines"])

_BUILD = """
import os, socket, sys, time
from pathlib import Path
from genolewm_assets.store.artefacts.build import build
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.worlds.store.leases import wait_for
from genolewm_assets_tests.worlds.store.plans import numbered_plan

root, flags, numbers = Root(Path(sys.argv[1])), Path(sys.argv[2]), map(int, sys.argv[3].split(","))
host = socket.gethostname()

def tell(work):
    with (flags / "tally").open("a") as handle:
        handle.write(f"{host} {os.getpid()} {work.parent.name}\\n")
    time.sleep(0.05)

(flags / host).touch()
wait_for(flags / "go")
for number in numbers:
    build(root, numbered_plan(number, before_write=tell))
"""

_HANG = """
import sys, time
from pathlib import Path
from genolewm_assets.store.artefacts.build import build
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.worlds.store.plans import numbered_plan

def hang(work):
    (work / "half").write_bytes(b"half")
    Path(sys.argv[2]).touch()
    time.sleep(600)

build(Root(Path(sys.argv[1])), numbered_plan(0, before_write=hang))
"""

_CHECK = """
from genolewm_assets.cli import main
sys.argv = ["genolewm", "root", "check", sys.argv[1], "--one-machine", "--wait", "60", "--json"]
main()
"""


@pytest.fixture(scope="module")
def hosts() -> None:
    need_hosts()


def end(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


@KINDS
def test_two_hosts_build_twenty_partitions_of_one_root(root: Root, tmp_path: Path, *, own_boot: bool) -> None:
    flags, ascending = tmp_path / "flags", list(range(PARTITIONS))
    flags.mkdir()
    orders = {"host-a": ascending, "host-b": ascending[::-1]}
    runs = [
        on_host(host, _BUILD, root.path, flags, ",".join(map(str, order)), own_boot=own_boot)
        for host, order in orders.items()
    ]
    for host in orders:
        wait_for(flags / host)
    (flags / "go").touch()
    for run in runs:
        end(run)
    lines = [line.split() for line in (flags / "tally").read_text().splitlines()]
    assert Counter(location for _, _, location in lines) == dict.fromkeys(
        (f"gnomad~4.1~part{number}" for number in ascending), 1
    )
    assert {host for host, _, _ in lines} == set(orders)
    # Each numbers its processes by itself: the number says nothing on the other host.
    assert {pid for _, pid, _ in lines} == {"1"}
    assert verify_root(root) == []
    undisturbed = new_root(tmp_path / "undisturbed")
    for number in ascending:
        assert is_current(root, numbered_plan(number))
        build(undisturbed, numbered_plan(number))
    assert picture(root) == picture(undisturbed)


@KINDS
def test_an_owner_on_another_host_is_not_taken_for_a_dead_process_of_this_one(
    root: Root, tmp_path: Path, *, own_boot: bool
) -> None:
    """Its process has number 1, and so has the one that wants the lock; that it was started later means nothing."""
    plan, started = numbered_plan(0), tmp_path / "started"
    process = on_host("host-a", _HANG, root.path, started, own_boot=own_boot)
    wait_for(started)
    (record,) = root.path.glob("work/*/lock.json")
    assert json.loads(record.read_bytes())["pid"] == 1
    code = _HANG.replace("Root(Path(sys.argv[1]))", "Root(Path(sys.argv[1]), lock_wait_s=0.2)")
    refused = on_host("host-b", code, root.path, tmp_path / "never", own_boot=own_boot)
    _, err = refused.communicate(timeout=60)
    assert "BusyError" in err
    assert "process 1 on host-a" in err
    (work,) = root.path.glob("work/*/build.*")
    assert (work / "half").exists()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    if own_boot:
        # Nobody can know here that it has ended: its minute without renewal has to pass.
        assert root.is_locked("gnomad/4.1/part0")
        silence(record, 61)
        assert not root.is_locked("gnomad/4.1/part0")
    assert not build(root, plan).reused
    # Of the one that cannot be examined, what it wrote is kept for a day.
    assert work.exists() is own_boot


def test_the_check_of_the_root_passes_on_both(root: Root) -> None:
    before = sorted(root.path.rglob("*"))
    runs = [on_host(host, _CHECK, root.path) for host in ("host-a", "host-b")]
    for run, host in zip(runs, ("host-a", "host-b"), strict=True):
        check = json.loads(end(run))
        assert check["passed"], check
        assert check["here"].startswith(host)
    assert sorted(root.path.rglob("*")) == before


def test_a_check_that_is_ended_leaves_nothing(root: Root) -> None:
    before = sorted(root.path.rglob("*"))
    run = on_host("host-a", _CHECK, root.path)
    folder = root.path / "work" / ".root-check"
    wait_for(folder)
    # The first process of the namespaces is a child of `unshare`.
    (child,) = Path(f"/proc/{run.pid}/task/{run.pid}/children").read_text().split()
    os.kill(int(child), signal.SIGTERM)
    run.communicate(timeout=60)
    assert run.returncode == 130
    assert sorted(root.path.rglob("*")) == before
