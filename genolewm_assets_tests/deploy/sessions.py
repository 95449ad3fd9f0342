"""Processes of a POSIX session (``setsid``) and the sockets they listen on, as the kernel has them."""

from __future__ import annotations

import ipaddress
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from genolewm_assets_tests.servers.processes import status_of

_LISTEN = "0A"


def listening(session: int) -> set[tuple[str, int]]:
    """Return address and port of every TCP socket on which a process of a session listens."""
    mine = {inode for pid in members(session) for inode in _sockets(pid)}
    return {(address, port) for inode, address, port in _table() if inode in mine}


def members(session: int) -> list[int]:
    """Return the living processes of a session."""
    pids = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [pid for pid in pids if (status := status_of(pid))[0] not in "ZX" and status[2] == session]


def kill_session(leader: subprocess.Popen[bytes]) -> None:
    """End ``leader``, which called ``setsid``, and every process that belongs to it."""
    while alive := members(leader.pid):
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        leader.poll()
    leader.wait()


def _sockets(pid: int) -> Iterator[str]:
    with suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    yield target[8:-1]


def _table() -> Iterator[tuple[str, str, int]]:
    """Yield inode, address and port of every listening TCP socket."""
    for name in ("tcp", "tcp6"):
        table = Path(f"/proc/net/{name}")
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            fields = line.split()
            if fields[3] == _LISTEN:
                address, _, port = fields[1].partition(":")
                yield fields[9], _address(address), int(port, 16)


def _address(text: str) -> str:
    """Return an address that the kernel prints as hexadecimal words in the machine's byte order."""
    words = [bytes.fromhex(text[at : at + 8]) for at in range(0, len(text), 8)]
    ordered = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return str(ipaddress.ip_address(ordered))
