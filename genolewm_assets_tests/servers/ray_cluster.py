"""A Ray cluster on loopback, started with the commands of ``deploy/ray/systemd``: a raylet and an address per node."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import Request, urlopen

from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.servers.processes import is_running, nearest_above, running_commands, variables_of
from genolewm_assets_tests.servers.programs import free_port, program

#: In the order in which they start.
NODES = ("head", "cpu", "h100")

#: What Ray finds out by itself on a machine with the card.
_CARD = ("--num-gpus=1", '--resources={"accelerator_type:H100":1}')
#: Workers listen where the kernel has room: all nodes are on one machine.
_PORTS = ("--min-worker-port=0", "--max-worker-port=0")
_START_S = 180.0


@dataclass(frozen=True, slots=True)
class SeenStep:
    """A step as the kernel shows it: its process, the address of the raylet above it, and its CUDA devices."""

    pid: int
    node: str
    devices: str | None


def _free_addresses() -> dict[str, str]:
    """Return addresses that no other cluster on this machine has, as far as chance can tell.

    None of them is 127.0.0.1, which Ray replaces by the machine's outer address.
    """
    network = f"127.{1 + secrets.randbelow(250)}.{secrets.randbelow(250)}"
    return {node: f"{network}.{number}" for number, node in enumerate(NODES, 2)}


@dataclass
class RayCluster:
    """Nodes by the names of their units: ``head``, ``cpu``, ``h100``; ``folder`` is short, for Ray's sockets."""

    folder: Path
    environment: Mapping[str, str]
    token: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    addresses: Mapping[str, str] = field(default_factory=_free_addresses)
    port: int = field(default_factory=free_port)
    jobs_port: int = field(default_factory=free_port)
    agent_port: int = field(default_factory=free_port)
    client_port: int = field(default_factory=free_port)
    _nodes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict, repr=False)

    @property
    def jobs_url(self) -> str:
        return f"http://{self.addresses['head']}:{self.jobs_port}"

    @property
    def client_environment(self) -> dict[str, str]:
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.folder / "token")}
        return {"GENOLEWM_RAY_ADDRESS": self.jobs_url, **token}

    def log(self, node: str) -> Path:
        return self.folder / f"{node}.log"

    def start(self, node: str) -> None:
        """Start a node as its unit does, and wait until the head knows it; the head comes first."""
        self.folder.joinpath("token").write_text(self.token)
        own = {"GENOLEWM_RAY_NODE": self.addresses[node], "GENOLEWM_RAY_HEAD": f"{self.addresses['head']}:{self.port}"}
        environment = {**self.environment, **self.client_environment, **own}
        command = [program("setpriv"), "--pdeathsig=TERM", *self._command(node, environment)]
        with self.log(node).open("ab") as log:
            self._nodes[node] = subprocess.Popen(
                command, env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + _START_S
        while self.addresses[node] not in self.alive():
            assert self._nodes[node].poll() is None, self.log(node).read_text()[-4_000:]
            assert time.monotonic() < deadline, f"waited {_START_S:g} s for the Ray node {node}"
            time.sleep(0.2)

    def _command(self, node: str, environment: Mapping[str, str]) -> list[str]:
        text = (REPOSITORY / f"deploy/ray/systemd/genolewm-ray-{node}.service").read_text()
        (line,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
        places = {
            "/opt/genolewm/venv/bin": sysconfig.get_path("scripts"),
            "/var/cache/genolewm/ray": str(self.folder / "ray"),
            "--port=6379": f"--port={self.port}",
            "--dashboard-port=8265": f"--dashboard-port={self.jobs_port}",
            "--dashboard-agent-listen-port=52365": f"--dashboard-agent-listen-port={self.agent_port}",
            **{f"${{{name}}}": environment[name] for name in ("GENOLEWM_RAY_NODE", "GENOLEWM_RAY_HEAD")},
        }
        for place, here in places.items():
            line = line.replace(place, here)
        further = {"head": (f"--ray-client-server-port={self.client_port}",), "h100": _CARD}
        return [*shlex.split(line), *_PORTS, *further.get(node, ())]

    def alive(self) -> set[str]:
        request = Request(f"{self.jobs_url}/nodes?view=summary", headers={"Authorization": f"Bearer {self.token}"})
        with suppress(OSError), urlopen(request, timeout=10) as answer:
            summaries = json.load(answer)["data"]["summary"]
            # A node that is just joining has no address yet.
            return {each.get("ip", "") for each in summaries if each.get("raylet", {}).get("state") == "ALIVE"}
        return set()

    def kill_raylet(self, node: str) -> None:
        """End the raylet of a node with SIGKILL, and nothing else; the rest of the node has to notice."""
        (raylet,) = [pid for pid, words in self._members(self.addresses[node]) if _raylet_address(words) is not None]
        os.kill(raylet, signal.SIGKILL)
        self._nodes.pop(node).wait(_START_S)

    def stop(self) -> None:
        """End every process of the cluster with SIGKILL, the jobs among them."""
        for address in self.addresses.values():
            self._end(address)
        for node in self._nodes.values():
            node.wait()

    def _end(self, address: str) -> None:
        while mine := self._members(address):
            for pid, _ in mine:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)

    def _members(self, address: str) -> list[tuple[int, list[bytes]]]:
        """Return the living processes of a node, told by the environment that its unit began with."""
        wanted = {"RAY_AUTH_TOKEN_PATH": str(self.folder / "token"), "GENOLEWM_RAY_NODE": address}.items()
        mine = [found for found in running_commands() if wanted <= variables_of(found[0]).items()]
        return [found for found in mine if is_running(found[0])]


@contextmanager
def ray_cluster(environment: Mapping[str, str]) -> Iterator[RayCluster]:
    """Run a cluster of three nodes until the block ends; the nodes start one after the other.

    Two raylets that start on one machine at the same moment can take the same socket.
    """
    cluster = RayCluster(Path(tempfile.mkdtemp(prefix="genolewm-ray-", dir="/tmp")), environment)
    try:
        for node in NODES:
            cluster.start(node)
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(cluster.folder, ignore_errors=True)


class Witness:
    """Notes the raylet above every step of Dagster that it is shown; keys are run id and step key."""

    def __init__(self) -> None:
        self.steps: dict[tuple[str, str], SeenStep] = {}

    def note(self, pid: int, words: list[bytes]) -> None:
        """Note the node of a process if it executes a step."""
        if b"execute_step" not in words or not words[0].endswith(b"python"):
            return
        variables, node = variables_of(pid), raylet_above(pid)
        if node is not None and (job := variables.get("RAY_JOB_CONFIG_JSON_ENV_VAR")):
            run_id = json.loads(job)["metadata"]["dagster/run-id"]
            seen = SeenStep(pid, node, variables.get("CUDA_VISIBLE_DEVICES"))
            self.steps.setdefault((run_id, variables["DAGSTER_RUN_STEP_KEY"]), seen)


def raylet_above(pid: int) -> str | None:
    return nearest_above(pid, _raylet_address)


def _raylet_address(words: list[bytes]) -> str | None:
    """Return the address of a raylet, from the words of its command; None of another program."""
    if not words[0].endswith(b"/raylet"):
        return None
    prefix = b"--node_ip_address="
    return next(word.removeprefix(prefix).decode() for word in words if word.startswith(prefix))
