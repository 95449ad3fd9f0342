"""Nodes: what they offer, and the process of each, below which its pods run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from genolewm_assets_tests.servers.kubernetes.quantities import Amounts, amounts
from genolewm_assets_tests.servers.processes import nearest_above
from genolewm_assets_tests.servers.programs import program

_AGENT = Path(__file__).with_name("node_agent.py")
_NAME = b"--node="


@dataclass
class Node:
    """A node of the cluster.

    Attributes
    ----------
    labels, taints
        As in the API; a taint has ``key``, ``value`` and ``effect``.
    allocatable
        Quantities of ``cpu``, ``memory`` and devices such as ``nvidia.com/gpu``.
    cordoned
        Whether no further pod is placed here.
    is_ready
        Whether its process runs.
    """

    name: str
    allocatable: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    cordoned: bool = False
    is_ready: bool = False
    _agent: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def offered(self) -> Amounts:
        return amounts(self.allocatable)

    def start(self) -> None:
        """Start the process of the node; it ends with the process of the test."""
        command = [program("setpriv"), "--pdeathsig=KILL", sys.executable, "-IS", str(_AGENT), f"--node={self.name}"]
        self._agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/")
        assert self._agent.stdout is not None
        os.set_blocking(self._agent.stdout.fileno(), False)
        self.is_ready = True

    def kill(self) -> None:
        """End the process of the node with SIGKILL; the kernel ends its pods."""
        if self._agent is not None:
            self._agent.kill()
            self._agent.wait()
            for stream in (self._agent.stdin, self._agent.stdout):
                with suppress(OSError):
                    assert stream is not None
                    stream.close()
            self._agent, self.is_ready = None, False

    def run(self, uid: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Let the node run the command of a pod."""
        assert self._agent is not None
        assert self._agent.stdin is not None
        order = {"pod": uid, "command": list(command), "environment": dict(environment), "log": str(log)}
        with suppress(OSError):
            self._agent.stdin.write(json.dumps(order).encode() + b"\n")
            self._agent.stdin.flush()

    def news(self) -> Iterator[dict[str, str | int]]:
        """Yield what happened to pods since the last call: ``pod`` with ``pid``, ``exit`` or ``error``."""
        if self._agent is not None and self._agent.stdout is not None:
            while line := self._agent.stdout.readline():
                yield json.loads(line)


def node_above(pid: int) -> str | None:
    """Return the name of the node whose process is the nearest ancestor of a process; None if none is."""
    return nearest_above(pid, _node_of)


def _node_of(words: list[bytes]) -> str | None:
    if str(_AGENT).encode() not in words:
        return None
    return next(word.removeprefix(_NAME).decode() for word in words if word.startswith(_NAME))


def end_process(pid: int, how: signal.Signals) -> None:
    """Signal the first process of a pod; SIGKILL goes to all of the pod's."""
    with suppress(ProcessLookupError):
        os.killpg(pid, how) if how is signal.SIGKILL else os.kill(pid, how)
