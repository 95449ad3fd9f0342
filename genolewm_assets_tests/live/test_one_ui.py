"""Two ``genolewm ui`` at once, started as a person starts them: one is refused; after a kill the next one starts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest

from genolewm_assets_tests.deploy.sessions import kill_session, members
from genolewm_assets_tests.live.harness import wait_until
from genolewm_assets_tests.servers.programs import free_port
from genolewm_assets_tests.servers.server_logs import showing_log
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld

pytestmark = [pytest.mark.timeout(900)]

STOP_S = 90.0


@dataclass(frozen=True)
class UI:
    """One ``genolewm ui`` in a session of its own, and what it prints."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def lines(self) -> list[str]:
        return self.log.read_text(errors="replace").splitlines()

    def wait_for_address(self) -> None:
        def is_announced() -> bool:
            assert self.process.poll() is None, self.lines()[-40:]
            return f"Open http://127.0.0.1:{self.port}" in self.lines()

        wait_until(is_announced, "the line with the address", timeout_s=240.0)
        # The first request after the line is answered.
        with urlopen(f"http://127.0.0.1:{self.port}/server_info", timeout=60) as answer:
            assert answer.status == 200

    def daemons(self) -> list[int]:
        """Return the daemons of the session."""
        found = []
        for pid in members(self.process.pid):
            with suppress(OSError):
                if b"dagster._daemon" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    found.append(pid)
        return found


@contextmanager
def ui(world: TinyWorld, port: int, *, root: Path | None = None, name: str = "ui") -> Iterator[UI]:
    """Start ``genolewm ui``; everything that it started is gone at the end."""
    options = ["--root", str(root or world.root), "--catalog", str(world.catalog), "--port", str(port)]
    log = world.folder / f"{name}.log"
    with log.open("wb") as sink, showing_log(name, log):
        # As a background command of a shell script, which ignores SIGINT; `kill` must end it all the same.
        process = subprocess.Popen(
            ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", sys.executable, "-m", "genolewm_assets", "ui", *options],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            yield UI(process, port, log)
        finally:
            kill_session(process)


def refusal(second: UI) -> str:
    assert second.process.wait(60) == 4
    (line,) = second.lines()
    return line


def test_a_root_has_one_ui_at_a_time(tmp_path: Path) -> None:
    world, port, another = TinyWorld(tmp_path), free_port(), free_port()
    with ui(world, port, name="first") as first:
        first.wait_for_address()
        (daemon,) = first.daemons()
        for asked in (another, port):
            with ui(world, asked, name=f"second.{asked}") as second:
                line = refusal(second)
            assert line.startswith(f"{world.root}: the UI of this root is already served at http://127.0.0.1:{port} ")
            assert f"process {first.process.pid} on {os.uname().nodename}, since " in line
            assert f"Open http://127.0.0.1:{port}, or end it (kill {first.process.pid})" in line
        with ui(world, port, root=tmp_path / "another", name="elsewhere") as second:
            assert refusal(second).startswith(f"127.0.0.1:{port}: another program listens on this port. ")
        assert (first.process.poll(), first.daemons()) == (None, [daemon])
        # Its servers end after it, and the next one waits for the port.
        first.process.kill()
        first.process.wait()
        with ui(world, port, name="third") as third:
            third.wait_for_address()
            assert (first.daemons(), len(third.daemons())) == ([], 1)
            third.process.send_signal(signal.SIGTERM)
            assert third.process.wait(STOP_S) == 0
            assert not (world.root / "dagster/ui/lock.json").exists()
            assert third.lines().count(f"Open http://127.0.0.1:{port}") == 1
            assert not [line for line in (*first.lines(), *third.lines()) if re.search(r"Warning\b", line)]
