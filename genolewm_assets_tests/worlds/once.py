"""Folders that are built once in a run of pytest and shared by its workers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def built_once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], object]) -> Path:
    """Return a folder that ``build`` has filled; the first worker that asks for it builds it, others wait.

    Tests that change files work on a copy. The name is unique in the whole suite.
    """
    base = factory.getbasetemp()
    # A worker of xdist has a folder of its own inside the folder of the run.
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, finished = run / "once" / name, run / "once" / f"{name}.finished"
    folder.parent.mkdir(exist_ok=True)
    with FileLock(folder.with_name(f"{name}.lock")):
        if not finished.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            build(folder)
            finished.touch()
    return folder
