"""Programs on one machine that take themselves for different machines: host name, process numbers, network, boot."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from genolewm_assets_tests.places import REPOSITORY

_NAMESPACES = ("--net", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child")
_PRELUDE = """
import socket, sys
host, boot_id, machine_id = sys.argv[1:4]
del sys.argv[1:4]
socket.sethostname(host)
if boot_id:
    from genolewm_assets.store.locks import lease, record
    lease.boot_id = record.boot_id = lambda: boot_id
    record.machine_id = lambda: machine_id
"""


def _unshare() -> list[str]:
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return [shutil.which("unshare") or "unshare", *user, *_NAMESPACES]


def need_hosts() -> None:
    """Skip the test where this machine or user may not make the namespaces."""
    try:
        answer = subprocess.run([*_unshare(), "true"], capture_output=True, text=True, timeout=30, check=False)
    except OSError as err:
        pytest.skip(f"no unshare: {err}")
    if answer.returncode:
        pytest.skip(f"namespaces cannot be made here: {answer.stderr.strip()}")


def on_host(name: str, code: str, *arguments: object, own_boot: bool = False) -> subprocess.Popen[str]:
    """Start Python code on a host of that name, one with its own boot and machine id or a container."""
    digit = f"{sum(name.encode()) % 10}"
    ids = [f"{digit * 8}-1111-2222-3333-444444444444", digit * 32] if own_boot else ["", ""]
    command = [*_unshare(), sys.executable, "-c", _PRELUDE + code, name, *ids, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, cwd=Path("/"), stdout=pipe, stderr=pipe, text=True)
