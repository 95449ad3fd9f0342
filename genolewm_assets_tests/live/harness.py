"""A live Dagster of a test's own: web server, code server and daemon, as ``genolewm ui`` starts them.

``with live_server(root, catalog) as server:`` starts it; ``server.graphql`` asks it, ``server.url`` is what a browser
opens; ``server.kill()`` and ``server.start()`` are a crash and what follows it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from genolewm_assets.launch import WORKING_FOLDER, prepare_environment, ui_command
from genolewm_assets_tests.live.graphql import GraphQL
from genolewm_assets_tests.servers.programs import free_port, program
from genolewm_assets_tests.servers.server_logs import showing_log

_START_S = 240.0
_STOP_S = 40.0

#: The daemon looks around more often than on a machine of people, so that a test waits less for it.
_DEQUEUE = {"dequeue_interval_seconds": 2}
_MONITORING = {"poll_interval_seconds": 3, "free_slots_after_run_end_seconds": 3}

_DEMO = """
import sys
from genolewm_assets.definitions import defs
from genolewm_assets.defs.operations.demo import Demo
from genolewm_assets_tests.worlds.graph.quick_dagster import install
install()
with Demo(defs) as walk:
    results = [*walk.run(walk.steps()), walk.follow()]
failed = [result.line() for result in results if result.outcome == "failed"]
sys.exit("\\n".join(failed) or 0)
"""


@dataclass
class LiveServer:
    """One deployment on a root; started and ended any number of times, on one port.

    Attributes
    ----------
    root, catalog
        As ``genolewm ui`` takes them.
    settings
        Replaces top-level keys of the project's ``dagster.yaml``, such as ``storage``.
    environment
        Added to the server's environment.
    """

    root: Path
    catalog: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        """Address of the web server, without a slash at its end."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def graphql(self) -> GraphQL:
        """Client of this server."""
        return GraphQL(self.url)

    @property
    def log(self) -> Path:
        """What the three servers print."""
        return self.root.parent / f"{self.root.name}.dagster.log"

    @property
    def dagster_home(self) -> Path:
        """Folder of the instance: ``dagster.yaml`` and, with SQLite, the databases."""
        return self.root / "dagster"

    def prepare(self) -> dict[str, str]:
        """Write the instance's settings and return the environment of its processes."""
        prepared = prepare_environment(self.root, self.catalog)
        file = self.dagster_home / "dagster.yaml"
        settings = {**yaml.safe_load(file.read_text()), **self.settings}
        coordinator = settings["run_coordinator"]
        settings["run_coordinator"] = {**coordinator, "config": {**coordinator.get("config", {}), **_DEQUEUE}}
        settings["run_monitoring"] = {**settings["run_monitoring"], **_MONITORING}
        file.write_text(yaml.safe_dump(settings))
        return {**os.environ, **prepared, **self.environment}

    def demo(self) -> None:
        """Materialise the whole graph on this instance as ``genolewm demo`` does; the server is better not running."""
        done = subprocess.run(
            [sys.executable, "-c", _DEMO],
            env=self.prepare(),
            cwd=self.root,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-6000:] + done.stdout[-6000:]

    def start(self) -> None:
        """Start the servers and wait until the code location is loaded and the daemon has reported itself."""
        assert self._process is None, "the server is running"
        environment = self.prepare()
        # A session of its own, so that all of it can be found again; it ends with the process that started it.
        command = [program("setpriv"), "--pdeathsig=INT", *ui_command(self.port)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env=environment,
                cwd=WORKING_FOLDER,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            wait_until(self._answers, "the server to start", timeout_s=_START_S)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """End the servers in order, as Ctrl-C does; what does not end in time is killed."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
            self.kill()

    def kill(self) -> None:
        """End everything at once with SIGKILL: web server, daemon, code server and the runs that it had started."""
        if self._process is None:
            return
        session = self._process.pid
        # A process may have been started while the others were being killed.
        while members := _session_members(session):
            for member in members:
                with suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            self._process.poll()
            time.sleep(0.02)
        self._process.wait()
        self._process = None

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"the server ended with {self._process.returncode}:\n{self.log.read_text()[-6000:]}")
        with suppress(OSError):
            return self.graphql.is_loaded() and self.graphql.daemon_is_healthy()
        return False


@contextmanager
def live_server(
    root: Path,
    catalog: str | Path,
    *,
    settings: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    demo_first: bool = False,
) -> Iterator[LiveServer]:
    """Serve a root on a free port of 127.0.0.1 until the block ends; see :class:`LiveServer`.

    Parameters
    ----------
    root, catalog, settings, environment
        As those of :class:`LiveServer`.
    demo_first
        Materialise the whole graph before the server starts.

    Notes
    -----
    The log lies beside the root, and its end is shown with a test that fails.
    """
    server = LiveServer(root.resolve(), str(catalog), settings or {}, environment or {})
    server.root.mkdir(parents=True, exist_ok=True)
    with showing_log("dagster dev", server.log):
        try:
            if demo_first:
                server.demo()
            server.start()
            yield server
        finally:
            server.stop()


def wait_until(is_so: Callable[[], object], what: str, *, timeout_s: float = 900.0, every_s: float = 0.5) -> None:
    """Ask until it is so; fail after a generous time."""
    deadline = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < deadline, f"waited {timeout_s:g} s for {what}"
        time.sleep(every_s)


def _session_members(session: int) -> list[int]:
    """Return the processes of a session that still run."""
    members = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                # After the command's name in parentheses: state, parent, process group, session.
                state, _, _, its_session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(its_session) == session and state not in "ZX":
                    members.append(int(entry.name))
    return members
