"""Web server and daemon end with the ``genolewm ui`` that started them, also if it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SERVER = """
import signal, sys, time
from genolewm_assets.defs import ui_process
# What a shell starts in the background ignores SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)
if "deaf" in sys.argv:
    ui_process._STOP_S = 0.2
    signal.signal(signal.SIGINT, signal.SIG_IGN)
ui_process.end_with_ui()
print("serving", flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:
    print("ended in order", flush=True)
"""
#: Starts a server as `dagster dev` does, and waits.
_UI = """
import os, subprocess, sys
from genolewm_assets.defs.ui_process import UI_PROCESS
os.environ[UI_PROCESS] = str(os.getpid())
subprocess.run([sys.executable, "-c", *sys.argv[1:]])
"""


@contextmanager
def ui_with_server(*options: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Yield a process that started a server with these options, and the server's process id."""
    command = [sys.executable, "-c", _UI, _SERVER, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as ui:
        assert ui.stdout.readline() == "serving\n"
        (server,) = Path(f"/proc/{ui.pid}/task/{ui.pid}/children").read_text().split()
        yield ui, int(server)


def said(ui: subprocess.Popen[str]) -> str:
    """Return what a server printed until its end, at which the pipe is closed."""
    return ui.stdout.read()


def test_a_server_ends_with_the_ui_that_was_killed() -> None:
    with ui_with_server("--shutdown-pipe", "5") as (ui, _):
        ui.kill()
        assert said(ui) == "ended in order\n"


def test_a_server_that_does_not_end_in_order_is_killed() -> None:
    with ui_with_server("--shutdown-pipe", "5", "deaf") as (ui, _):
        ui.kill()
        assert said(ui) == ""


def test_other_processes_of_the_ui_go_on() -> None:
    with ui_with_server() as (ui, worker):
        ui.kill()
        ui.wait()
        time.sleep(1.2)
        os.kill(worker, signal.SIGINT)
        assert said(ui) == "ended in order\n"


def test_a_server_stays_while_the_ui_is_there() -> None:
    with ui_with_server("--shutdown-pipe", "5") as (ui, server):
        time.sleep(1.2)
        assert Path(f"/proc/{server}/cmdline").read_bytes() != b""
        ui.kill()
