"""Output files compressed as BGZF."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pysam


@contextmanager
def open_bgzf(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing as BGZF, by ``bgzip`` on two threads or, if it is not installed, by pysam.

    Raises
    ------
    RuntimeError
        If ``bgzip`` fails.
    """
    bgzip = shutil.which("bgzip")
    if bgzip is None:
        with pysam.BGZFile(str(path), "wb") as stream:
            yield stream
        return
    with path.open("wb") as target, subprocess.Popen([bgzip, "-@2", "-c"], stdin=subprocess.PIPE, stdout=target) as run:
        assert run.stdin is not None
        yield run.stdin
        run.stdin.close()
        if run.wait():
            raise RuntimeError(f"{path}: bgzip ended with status {run.returncode}: expected 0. Is the disk full?")
