"""An installation as ``deploy/README.md`` makes it, below a folder of a test instead of ``/etc`` and ``/srv``.

What is started is what the units say, with only the places and the web server's port exchanged.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from genolewm_assets_tests.deploy.sessions import kill_session
from genolewm_assets_tests.live.graphql import GraphQL
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.servers.postgres import PostgresServer
from genolewm_assets_tests.servers.programs import free_port, program

DEPLOY = REPOSITORY / "deploy"
UNITS = DEPLOY / "systemd"

_START_S, _STOP_S = 180.0, 40.0


def settings_of(text: str) -> dict[str, str]:
    """Parse a file of ``NAME=value`` lines: an environment, or the settings of a unit of which each stands once."""
    lines = [line for line in text.splitlines() if "=" in line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


@dataclass
class Installation:
    """Configuration, root and processes of one installation, below ``folder``; the first database is its own."""

    folder: Path
    database: PostgresServer
    catalog: Path
    root: Path = field(init=False)
    port: int = field(default_factory=free_port)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.root = self.folder / "srv"
        for path in (self.etc, self.root / "dagster", self.backups, self.folder / "run", self.folder / "cache"):
            path.mkdir(parents=True, exist_ok=True)
        for name in ("dagster.yaml", "workspace.yaml"):
            (self.etc / name).write_text(self.moved((DEPLOY / name).read_text()))

    @property
    def etc(self) -> Path:
        return self.folder / "etc"

    @property
    def backups(self) -> Path:
        return self.folder / "backups"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def graphql(self) -> GraphQL:
        return GraphQL(self.url)

    def moved(self, text: str) -> str:
        """Exchange the places of a machine for those of this installation."""
        places: Mapping[str, Path | str] = {
            "/opt/genolewm/venv/bin": sysconfig.get_path("scripts"),
            "/opt/genolewm/src": REPOSITORY,
            "/etc/genolewm": self.etc,
            "/srv/genolewm": self.root,
            "/run/genolewm": self.folder / "run",
            "/var/cache/genolewm": self.folder / "cache",
            "/var/backups/genolewm": self.backups,
        }
        for place, here in places.items():
            text = text.replace(place, str(here))
        return text

    def environment(self, **more: str) -> dict[str, str]:
        """Return the shipped environment with this database and catalogue, and nothing of the test's own."""
        shipped = settings_of(self.moved((DEPLOY / "genolewm.env.example").read_text()))
        return {**shipped, **self.database.environment, "GENOLEWM_CATALOG": str(self.catalog), **more}

    def command(self, unit: str, setting: str = "ExecStart") -> list[str]:
        """Return what a unit runs; empty where it has no such setting."""
        line = settings_of((UNITS / f"genolewm-{unit}.service").read_text()).get(setting, "")
        return shlex.split(self.moved(line).replace("--port 3000", f"--port {self.port}"))

    def start(self, *units: str) -> None:
        """Start units one after the other, as their ``After=`` says; each ends with the process that started it."""
        for unit in units:
            command = [program("setpriv"), "--pdeathsig=KILL", *self.command(unit)]
            with self.log(unit).open("ab") as log:
                self.processes[unit] = subprocess.Popen(
                    command, env=self.environment(), cwd="/", stdout=log, stderr=log, start_new_session=True
                )
                if then := self.command(unit, "ExecStartPost"):
                    subprocess.run(then, env=self.environment(), cwd="/", stderr=log, check=True, timeout=_START_S)

    def log(self, unit: str) -> Path:
        return self.folder / f"{unit}.log"

    def kill(self, *units: str) -> None:
        """End all processes of units at once, the runs among them."""
        for unit in units:
            process = self.processes.pop(unit)
            kill_session(process)

    def stop(self) -> None:
        """Ask every process to end, and end what has not."""
        for process in self.processes.values():
            process.terminate()
        for unit, process in list(self.processes.items()):
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self.kill(unit)
        self.processes.clear()

    def run(self, script: str, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a script of ``deploy/bin`` in the installation's environment."""
        command = [str(DEPLOY / "bin" / script), *map(str, arguments)]
        return self._run(command, more)

    def genolewm(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run a ``genolewm`` command in the installation's environment."""
        return self._run([sys.executable, "-m", "genolewm_assets", *map(str, arguments)], {})

    def _run(self, command: list[str], more: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        environment = self.environment(**more)
        return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)
