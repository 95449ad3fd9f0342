"""A PostgreSQL server of a test's own, on loopback TCP only; gone when the test ends."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from genolewm_assets_tests.servers.programs import free_port, postgres_programs, program

_DEADLINE_S = 60.0
#: Loopback only, no socket file; what a killed test loses needs no sync.
_SETTINGS = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off", "full_page_writes": "off"}
_SETTINGS |= {"max_connections": "100", "shared_buffers": "64MB"}


@dataclass
class PostgresServer:
    """A running server with a superuser, who needs the password, and an empty database; its log is in ``folder``."""

    folder: Path
    data: Path
    port: int
    password: str
    host: str = "127.0.0.1"
    user: str = "genolewm"
    database: str = "genolewm"
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def url(self) -> str:
        return self.url_of(self.database)

    def url_of(self, database: str) -> str:
        return f"postgresql://{self.user}:{self.password}@{self.host}:{self.port}/{database}"

    @property
    def environment(self) -> dict[str, str]:
        server = {"PGHOST": self.host, "PGPORT": str(self.port)}
        return {**server, "PGUSER": self.user, "PGPASSWORD": self.password, "PGDATABASE": self.database}

    def start(self) -> None:
        settings = [f"--{name}={value}" for name, value in _SETTINGS.items()]
        command = [str(postgres_programs() / "postgres"), "-D", str(self.data), "-p", str(self.port), *settings]
        with (self.folder / "postgres.log").open("ab") as log:
            self._process = subprocess.Popen(_as_postgres(command), stdout=log, stderr=log, cwd=self.data)
        deadline = time.monotonic() + _DEADLINE_S
        while not self.is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{(self.folder / 'postgres.log').read_text()[-3000:]}")
            time.sleep(0.1)

    def is_ready(self) -> bool:
        ask = [str(postgres_programs() / "pg_isready"), "-q", "-h", self.host, "-p", str(self.port)]
        return subprocess.run(ask, check=False).returncode == 0

    def stop(self, *, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT breaks connections off and ends in order, SIGQUIT is a crash."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(_DEADLINE_S)
            self._process = None

    def query(self, statement: str, *, database: str | None = None) -> str:
        command = [str(postgres_programs() / "psql"), "-XqtA", "-v", "ON_ERROR_STOP=1", "-c", statement]
        environment = {**os.environ, **self.environment, "PGDATABASE": database or self.database}
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()

    def create_database(self, name: str) -> str:
        self.query(f'CREATE DATABASE "{name}"')
        return name


@contextmanager
def postgres_server(folder: Path) -> Iterator[PostgresServer]:
    """Run a fresh server until the block ends; data lie apart from pytest's folders, which its user cannot reach."""
    folder.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="genolewm-postgres-"))
    server = PostgresServer(folder, home / "data", free_port(), secrets.token_hex(16))
    try:
        _create_cluster(home, server)
        server.start()
        server.query(f'CREATE DATABASE "{server.database}"', database="postgres")
        yield server
    finally:
        with suppress(subprocess.TimeoutExpired):
            server.stop(how=signal.SIGQUIT)
        shutil.rmtree(home, ignore_errors=True)


def _create_cluster(home: Path, server: PostgresServer) -> None:
    password = home / "password"
    password.write_text(server.password)
    password.chmod(0o600)
    if os.geteuid() == 0:
        shutil.chown(home, _unprivileged_user())
        shutil.chown(password, _unprivileged_user())
    command = [str(postgres_programs() / "initdb"), "-D", str(server.data), "-U", server.user, "--no-sync"]
    # Dagster connects for every statement, and a connection with scram-sha-256 costs nearly twice as much.
    command += ["--auth=md5", f"--pwfile={password}", "--encoding=UTF8", "--locale=C.UTF-8"]
    subprocess.run(_as_postgres(command), check=True, capture_output=True, cwd=home)


def _as_postgres(command: list[str]) -> list[str]:
    """Let the kernel end the server with the process that started it, and never run it as root."""
    wrapper = [program("setpriv"), "--pdeathsig=QUIT"]
    if os.geteuid() == 0:
        user = _unprivileged_user()
        wrapper += [f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups"]
    return [*wrapper, *command]


def _unprivileged_user() -> str:
    """Return the user that Debian's package makes, or the one that owns nothing."""
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"
