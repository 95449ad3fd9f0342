"""Logs of the servers that tests have running: their ends are shown beside a test that fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TAIL_BYTES = 6_000
_shown: dict[Path, str] = {}


@contextmanager
def showing_log(name: str, path: Path) -> Iterator[None]:
    """Show the end of a log with every test that fails until the block ends."""
    _shown[path] = name
    try:
        yield
    finally:
        del _shown[path]


def log_tails() -> list[tuple[str, str]]:
    return [(f"{name} ({path})", _tail(path)) for path, name in _shown.items() if path.is_file()]


def _tail(path: Path) -> str:
    return path.read_bytes()[-_TAIL_BYTES:].decode("utf-8", "replace")
