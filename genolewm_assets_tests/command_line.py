"""Command lines run in the process of a test."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from genolewm_assets import cli


class Answer(NamedTuple):
    """Exit code of a command, and what it printed."""

    code: int
    out: str
    err: str


#: Type of the fixture ``command``.
Command = Callable[..., Answer]


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Run a command line in this process and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["genolewm", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    return int(stop.value.code or 0)
