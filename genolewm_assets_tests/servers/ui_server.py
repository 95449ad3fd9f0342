"""Dagster's web server on a root, without a daemon: it shows what is there and changes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from genolewm_assets.launch import prepare_environment
from genolewm_assets_tests.live.harness import wait_until
from genolewm_assets_tests.servers.programs import free_port

_START_S, _STOP_S = 240.0, 20.0


@contextmanager
def ui_server(root: Path, catalog: str | Path) -> Iterator[str]:
    """Serve a root until the block ends; gives the server's URL. The log is ``ui_server.log`` beside the root."""
    port = free_port()
    arguments = ["-m", "genolewm_assets.definitions", "-h", "127.0.0.1", "-p", str(port)]
    log = root.parent / "ui_server.log"
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "dagster_webserver", *arguments],
            env={**os.environ, **prepare_environment(root, str(catalog))},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(process, url, log)
        yield url
    finally:
        _end(process)


def _wait_for(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    """Wait until the server answers, which it does once the definitions are loaded."""

    def answers() -> bool:
        with suppress(OSError), urllib.request.urlopen(f"{url}/server_info", timeout=5):
            return True
        assert process.poll() is None, f"the web server ended:\n{log.read_text(errors='replace')[-4_000:]}"
        return False

    wait_until(answers, "the web server to start", timeout_s=_START_S, every_s=0.2)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the server to end, as Ctrl-C does, and kill what is left of it and of its code server."""
    process.send_signal(signal.SIGINT)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
