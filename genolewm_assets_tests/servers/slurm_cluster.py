"""Slurm on loopback: one controller and three ``slurmd`` on this machine, one of them with an H100 that is no card."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from genolewm_assets_tests.servers.processes import status_of, variables_of
from genolewm_assets_tests.servers.programs import free_port, program

NODES = ("cpu-1", "cpu-2", "h100-1")
_START_S = 60.0

#: Program of the jobs that build.
_PROGRAM = b"genolewm_assets.defs.slurm_job"

_SETTINGS = """
ClusterName=genolewm
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
ReturnToService=2
KillWait=5
MessageTimeout=5
NodeName=cpu-1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[0]} CPUs=2
NodeName=cpu-2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2
NodeName=h100-1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 Gres=gpu:h100:1
PartitionName=cpu Nodes=cpu-[1-2] Default=YES
PartitionName=h100 Nodes=h100-1
"""


@dataclass
class SlurmCluster:
    """Controller, ``munged`` and nodes; ``folder`` is a short path, with sockets, logs and state."""

    folder: Path
    _daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, repr=False)

    @property
    def environment(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def start(self) -> None:
        """Write the settings, start everything, and wait until every node is idle."""
        self._write_settings()
        munge = {"socket": "munge.socket", "key-file": "munge.key", "log-file": "munged.log"}
        munge |= {"pid-file": "munged.pid", "seed-file": "munged.seed"}
        paths = [f"--{name}={self.folder / file}" for name, file in munge.items()]
        self._start("munged", [program("munged"), "--foreground", "--force", *paths])
        _wait((self.folder / "munge.socket").exists, "munged")
        self.start_controller()
        for node in NODES:
            self.start_node(node)
        _wait(lambda: self.states() == dict.fromkeys(NODES, "idle"), "the nodes", self.log("slurmctld"))

    def start_controller(self) -> None:
        self._start("slurmctld", [program("slurmctld"), "-D"])

    def start_node(self, node: str) -> None:
        self._start(node, [program("slurmd"), "-D", "-N", node])

    def kill(self, name: str) -> None:
        """End a daemon with SIGKILL: ``slurmctld``, or a node without what runs on it."""
        self._daemons[name].kill()
        self._daemons.pop(name).wait()

    def lose_node(self, node: str) -> None:
        """End the daemon of a node, and let the controller know what it would find out in some minutes."""
        self.kill(node)
        self.run("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=lost")

    def states(self) -> dict[str, str]:
        done = self.run("sinfo", "--noheader", "--Node", "--format=%N %t", check=False)
        return dict(line.split() for line in done.splitlines())

    def run(self, name: str, *arguments: str, check: bool = True) -> str:
        environment = {**os.environ, **self.environment}
        command = [program(name), *arguments]
        return subprocess.run(command, env=environment, check=check, capture_output=True, text=True).stdout

    def field(self, job: int, name: str) -> str:
        """Return a field of a job as ``scontrol`` shows it; empty if there is no such job."""
        words = self.run("scontrol", "show", "job", "--oneliner", str(job), check=False).split()
        return next((word.partition("=")[2] for word in words if word.startswith(f"{name}=")), "")

    def stop(self) -> None:
        """End every process of the cluster with SIGKILL, those of jobs among them."""
        # The daemons first: they would start the next job in the place of one that ends.
        for name in list(self._daemons):
            self.kill(name)
        for node in NODES:
            for pid in self._jobs_of(node):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def _jobs_of(self, node: str) -> list[int]:
        """Return the processes of the jobs on a node, ``slurmstepd`` first."""
        daemons = {pid for pid in _pids() if self.node_of_stepd(pid) == node}
        return [*daemons, *(pid for pid in _pids() if pid not in daemons and daemons & set(_above(pid)))]

    def node_of_stepd(self, pid: int) -> str | None:
        """Return the node whose log a ``slurmstepd`` has open; None of another process."""
        with suppress(OSError):
            if not Path(f"/proc/{pid}/exe").readlink().name.startswith("slurmstepd"):
                return None
            opened = {link.readlink() for link in Path(f"/proc/{pid}/fd").iterdir()}
            return next((node for node in NODES if self.log(node) in opened), None)
        return None

    def node_above(self, pid: int) -> str | None:
        return next((node for above in _above(pid) if (node := self.node_of_stepd(above)) is not None), None)

    def _start(self, name: str, command: list[str]) -> None:
        command = [program("setpriv"), "--pdeathsig=KILL", *command]
        own: dict[str, Any] = {"env": {**os.environ, **self.environment}, "cwd": "/", "stdin": subprocess.DEVNULL}
        with self.log(f"{name}.out").open("ab") as log:
            self._daemons[name] = subprocess.Popen(command, stdout=log, stderr=log, **own)

    def _write_settings(self) -> None:
        for name in ("state", *NODES):
            (self.folder / name).mkdir(mode=0o755)
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        text = _SETTINGS.format(
            host=socket.gethostname().partition(".")[0],
            port=free_port(),
            ports=[free_port() for _ in NODES],
            user=pwd.getpwuid(os.geteuid()).pw_name,
            folder=self.folder,
        )
        (self.folder / "slurm.conf").write_text(text)
        card = ""
        if os.geteuid() == 0:
            # Any character device will do: this one is /dev/null.
            os.mknod(self.folder / "nvidia0", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            card = f" File={self.folder}/nvidia0"
        (self.folder / "gres.conf").write_text(f"NodeName=h100-1 Name=gpu Type=h100{card}\n")


@dataclass(frozen=True, slots=True)
class SeenJob:
    """The process of a job as the kernel shows it: below which node, and with which CUDA devices."""

    pid: int
    node: str | None
    devices: str | None


class Witness:
    """Notes of processes: jobs by number, nodes of all, and of those that build states; None is outside Slurm."""

    def __init__(self, cluster: SlurmCluster, root: Path) -> None:
        self._cluster, self._root = cluster, root
        self.jobs: dict[int, SeenJob] = {}
        self.builders: set[str | None] = set()
        self.nodes: dict[int, str | None] = {}

    def note(self, pid: int, words: list[bytes]) -> None:
        """Note the node of a Python process, and what it builds."""
        if b"python" not in words[0] or (variables := variables_of(pid)).get("GENOLEWM_ROOT") != str(self._root):
            return
        if pid not in self.nodes:
            self.nodes[pid] = self._cluster.node_above(pid)
        if self._builds(pid):
            self.builders.add(self.nodes[pid])
        if _PROGRAM in words and words[0].startswith(b"/") and (number := variables.get("SLURM_JOB_ID")):
            seen = SeenJob(pid, self.nodes[pid], variables.get("CUDA_VISIBLE_DEVICES"))
            self.jobs.setdefault(int(number), seen)

    def _builds(self, pid: int) -> bool:
        opened = [link.readlink() for link in Path(f"/proc/{pid}/fd").iterdir()]
        work = self._root / "work"
        inside = [path.relative_to(work).parts for path in opened if path.is_relative_to(work)]
        # A lock lies beside the directories of work.
        return any(len(parts) > 2 and parts[0].startswith("embeddings~") for parts in inside)


@contextmanager
def slurm_cluster() -> Iterator[SlurmCluster]:
    cluster = SlurmCluster(Path(tempfile.mkdtemp(prefix="genolewm-slurm-", dir="/tmp")))
    cluster.folder.chmod(0o755)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(cluster.folder, ignore_errors=True)


def _wait(is_so: Callable[[], bool], what: str, log: Path | None = None) -> None:
    deadline = time.monotonic() + _START_S
    while not is_so():
        said = log.read_text()[-3_000:] if log is not None and log.exists() else ""
        assert time.monotonic() < deadline, f"waited {_START_S:g} s for {what}\n{said}"
        time.sleep(0.05)


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _above(pid: int) -> Iterator[int]:
    while pid > 1:
        pid = status_of(pid)[1]
        yield pid
