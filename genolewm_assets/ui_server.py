"""The process of ``genolewm ui``: runs ``dagster dev``, holds the lock of the root's UI, and says when the UI answers.

One root has one daemon: two would launch runs twice. The lock (``<root>/dagster/ui/lock.json``) names its owner and
the address of the UI.
"""

from __future__ import annotations

import errno
import os
import runpy
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from genolewm_assets.console import out
from genolewm_assets.defs.ui_process import UI_PROCESS
from genolewm_assets.errors import BusyError, ConfigurationError
from genolewm_assets.store.files import make_directories
from genolewm_assets.store.locks import RECORD, LeaseOwner, WriterLease, is_held, read_owner, while_free
from genolewm_assets.surroundings import errors_in_one_line

HOST = "127.0.0.1"

_MODULE = "genolewm_assets.definitions"
#: Seconds in which the servers that a killed ``genolewm ui`` left end by themselves.
_LEFT_SERVERS_S = 15.0
_POLL_S, _ANSWER_S = 0.3, 5.0
_LAST_PORT = 65_535


def url_of(port: int) -> str:
    """Return the address of the UI at a port."""
    return f"http://{HOST}:{port}"


def check_can_serve(home: Path, port: int) -> None:
    """Check that no other process serves the UI of a root, and that the port is free. Nothing is written."""
    folder = _lock_folder(home)
    owner = _owner(folder)
    if is_held(folder):
        raise _served(home, owner)
    # Of a server that was killed, the record of the lock remains.
    _check_port(port, wait_s=_LEFT_SERVERS_S if owner is not None and owner.note == url_of(port) else 0.0)


@contextmanager
def serving(home: Path, port: int) -> Iterator[None]:
    """Hold the lock of a root's UI; raises :class:`BusyError`, which names the owner, if another process holds it."""
    folder = _lock_folder(home)
    make_directories(folder)
    try:
        lease = WriterLease(folder, str(home.parent), note=url_of(port)).acquire(0.0)
    except BusyError as err:
        raise _served(home, _owner(folder)) from err
    with lease:
        yield


@contextmanager
def without_server(home: Path) -> Iterator[None]:
    """Keep a UI of the root from starting while the block runs; raises :class:`BusyError` if there is one."""
    folder = _lock_folder(home)
    make_directories(folder)
    if is_held(folder):
        raise _served(home, _owner(folder))
    with while_free(folder, str(home.parent)):
        yield


def main() -> None:
    """Serve the UI of the root of ``DAGSTER_HOME`` at the port that the first argument states, until it is stopped."""
    home, port = Path(os.environ["DAGSTER_HOME"]), int(sys.argv[1])
    with errors_in_one_line(), serving(home, port):
        # A shell script starts background commands with SIGINT ignored; Dagster would then ignore SIGTERM too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ[UI_PROCESS] = str(os.getpid())
        # What runs say of their failures leads to the pages of this UI, unless it has another address for readers.
        os.environ.setdefault("GENOLEWM_UI_URL", url_of(port))
        threading.Thread(target=_announce, args=(port,), name="announce the UI", daemon=True).start()
        # `dg dev`, which Dagster would have in its place, is a package that only developers install (extra `dg`).
        warnings.filterwarnings("ignore", "Function `dev_command` is superseded")
        sys.argv = ["dagster", "dev", "-m", _MODULE, "-h", HOST, "-p", str(port)]
        runpy.run_module("dagster", run_name="__main__", alter_sys=True)


def _lock_folder(home: Path) -> Path:
    return home / "ui"


def _owner(folder: Path) -> LeaseOwner | None:
    return read_owner(folder / RECORD)


def _served(home: Path, owner: LeaseOwner | None) -> BusyError:
    problem, remedy = "the UI of this root is already served", "End that process and run this again"
    if owner is not None:
        problem += f"{f' at {owner.note}' if owner.note else ''} by {owner}"
        end = f"end it (kill {owner.pid})" if owner.is_here() else f"end it on {owner.host}"
        remedy = (
            f"Open {owner.note}, or {end} and run this again"
            if owner.note
            else f"{end[0].upper()}{end[1:]} and run this again"
        )
    return BusyError(str(home.parent), problem, remedy=remedy)


def _check_port(port: int, *, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while not _is_free(port):
        if time.monotonic() >= deadline:
            others = range(port + 1, min(port + 100, _LAST_PORT) + 1)
            other = next((str(each) for each in others if _is_free(each)), "NUMBER")
            raise BusyError(
                f"{HOST}:{port}",
                "another program listens on this port",
                remedy=f"End it, or choose another port: --port {other}",
            )
        time.sleep(_POLL_S)


def _is_free(port: int) -> bool:
    """Return whether a server can listen on a port; raises :class:`ConfigurationError` if this user may not."""
    with socket.socket() as probe:
        # As web servers do: connections of a server that has ended do not keep the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except PermissionError as err:
            raise ConfigurationError(
                f"{HOST}:{port}", "this user may not listen on this port", remedy="Choose another one: --port 3000"
            ) from err
        except OSError as err:
            if err.errno != errno.EADDRINUSE:
                raise
            return False
    return True


def _announce(port: int) -> None:
    while not _answers(port):
        time.sleep(_POLL_S)
    out.say(f"Open {url_of(port)}", style="bold green")


def _answers(port: int) -> bool:
    connection = HTTPConnection(HOST, port, timeout=_ANSWER_S)
    with suppress(OSError, HTTPException):
        connection.request("GET", "/server_info")
        return connection.getresponse().status == 200
    connection.close()
    return False


if __name__ == "__main__":
    main()
