"""Programs and extras that tests run for real; absent, a test is skipped, but in continuous integration it fails."""

from __future__ import annotations

import importlib.util
import os
import re
import secrets
import shutil
import socket
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import pytest

_given: set[int] = set()

_SYSTEM_FOLDERS = os.pathsep.join(["/usr/local/sbin", "/usr/sbin", "/sbin"])


def program(name: str) -> str:
    """Return the path of a program, looked for in ``PATH`` and among the system's own."""
    found = shutil.which(name) or shutil.which(name, path=_SYSTEM_FOLDERS)
    return found or _absent(name)


def needs_extra(name: str, module: str) -> ModuleType:
    """Return a module of an extra of this package."""
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        _absent(f"the extra `{name}`", "make setup")
    return importlib.import_module(module)


def postgres_programs() -> Path:
    """Return the folder with the programs of the newest PostgreSQL server that is installed."""
    servers = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"),
        key=lambda path: [int(digits) for digits in re.findall(r"\d+", path.parts[-3])],
    )
    if servers:
        return servers[-1].parent
    found = shutil.which("postgres")
    return Path(found).resolve().parent if found else Path(_absent("postgres"))


def free_port() -> int:
    """Return a TCP port of the loopback interface that nothing listens on, another one each time.

    It is none of those that the kernel gives to outgoing connections, so that a server that stops finds it free again.
    """
    while True:
        port = secrets.choice(range(20_000, 32_000))
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in _given:
                _given.add(port)
                return port


def _absent(name: str, installer: str = ".ci/system_packages") -> str:
    reason = f"{name} is not installed ({installer} installs it)"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
