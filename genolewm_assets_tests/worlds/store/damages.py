"""What can happen to a published file, by the words of decision 101, and the table of that decision."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.worlds.store.plans import flip


def overwrite(path: Path) -> None:
    flip(path, path.stat().st_size // 2)


def keep_time(path: Path) -> None:
    before = path.stat()
    overwrite(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(path: Path) -> None:
    other = path.with_name("other")
    shutil.copy2(path, other)
    keep_time(other)
    other.replace(path)


def lie_elsewhere(path: Path) -> None:
    other = Path(shutil.copy2(path, path.parents[3] / "elsewhere"))
    path.unlink()
    path.symlink_to(other)


def rot(path: Path) -> None:
    """Change a byte and let every record of the file's identity be as if it had not been written."""
    overwrite(path)
    status = path.stat()
    folder = next(each for each in path.parents if each.parent.name == ".gen")
    file = folder.with_name(f"{folder.name}.digests")
    record = json.loads(file.read_bytes())
    name = str(path.relative_to(folder))
    record[name] = [record[name][0], status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    file.write_text(json.dumps(record))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "overwritten": overwrite,
    "overwritten, modification time set back": keep_time,
    "replaced by one of equal size and times": replace,
    "cut short": lambda path: os.truncate(path, 1),
    "missing": Path.unlink,
    "a symlink in its place": lie_elsewhere,
    "bytes changed below the file system": rot,
}


def read_table() -> dict[str, dict[str, bool]]:
    """Return whether a damage is found, by damage and level, as the decision's table says."""
    lines = (REPOSITORY / "docs/decisions/0101-known-by-identity.md").read_text().splitlines()
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|"))
    return {row[0]: {level: cell == "found" for level, cell in zip(head[1:], row[1:], strict=True)} for row in rows}
