"""Memory of a reader, and whether arrays fit into it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from genolewm_assets.errors import GenoLeWMError

_PROC, _CGROUP = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
# File of the memory limit by controller name. Control groups v2 have one hierarchy without controller name, v1 have a
# hierarchy for the controller "memory".
_LIMIT_FILES = {"": "memory.max", "memory": "memory.limit_in_bytes"}


class MemoryLimitError(GenoLeWMError, RuntimeError):
    """An array store is too large for the memory that this process may use."""

    exit_code = 3


def usable_memory_bytes(*, proc: Path = _PROC, cgroup: Path = _CGROUP) -> int:
    """Return the smaller of the physical memory and the lowest limit of this process's control groups, in bytes."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([physical, *_limits(proc, cgroup)])


def _limits(proc: Path, cgroup: Path) -> Iterator[int]:
    for line in _read(proc).splitlines():
        # hierarchy-ID:controllers:path (cgroups(7)); controllers that are mounted together share a line.
        _, controllers, path = line.split(":", maxsplit=2)
        for controller in set(controllers.split(",")) & set(_LIMIT_FILES):
            group = Path(path.lstrip("/"))
            # Limits of parent groups apply too; inside a container only the topmost group may be visible.
            for folder in (group, *group.parents):
                text = _read(cgroup / controller / folder / _LIMIT_FILES[controller]).strip()
                if text.isdigit():
                    yield int(text)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def check_fits_memory(size_bytes: int, max_fraction: float, where: str) -> None:
    """Raise :class:`MemoryLimitError` if a size exceeds a share (0 to 1) of the memory that this process may use."""
    usable = usable_memory_bytes()
    if size_bytes > max_fraction * usable:
        raise MemoryLimitError(
            where,
            f"loading into memory refused: the array store would use {_gigabytes(size_bytes)}, which exceeds "
            f"{max_fraction:.0%} of the {_gigabytes(usable)} this process may use",
            remedy="Read it from disk (load_in_memory=False)",
        )


def _gigabytes(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f} GB" if size_bytes >= 2**30 / 10 else f"{size_bytes} bytes"
