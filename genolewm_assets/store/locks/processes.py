"""Which process this is, and whether another one of the same machine is still there (Linux: proc(5))."""

from __future__ import annotations

import os
from pathlib import Path

# Seconds by which two clocks of one machine may differ: a log's and that of the process table.
_CLOCKS_DIFFER_S = 2.0


def boot_id() -> str:
    """Return what names this start of this machine's kernel; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def pid_namespace() -> str:
    """Return what names the numbering that process ids of this process belong to; empty where it is not said.

    Containers on one kernel share its boot id and number their processes each from 1.
    """
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def started_ticks(pid: int) -> int | None:
    """Return when a process began, in clock ticks since the machine was started; None where that cannot be read."""
    fields = _state_and_after(pid)
    return int(fields[19]) if fields else None


def is_same_process(pid: int, ticks: int | None) -> bool:
    """Tell whether the process is there that had this number and began then; one that cannot be known counts as there.

    Parameters
    ----------
    ticks
        From :func:`started_ticks`; None compares the number alone.
    """
    if not _exists(pid):
        return False
    fields = _state_and_after(pid)
    return not fields or (fields[0] not in "ZX" and ticks in {None, int(fields[19])})


def is_running(pid: int, began_before: float) -> bool:
    """Tell whether a process runs that began before a time; a later one got the number of one that has ended.

    Parameters
    ----------
    began_before
        Seconds since the epoch.
    """
    if not _exists(pid):
        return False
    fields, boot_time_s = _state_and_after(pid), _boot_time_s()
    if not fields or boot_time_s is None:
        return True
    began = boot_time_s + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return fields[0] not in "ZX" and began <= began_before + _CLOCKS_DIFFER_S


def _exists(pid: int) -> bool:
    """Tell whether a process of this machine has a number; one that was not waited for yet has."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _state_and_after(pid: int) -> list[str]:
    """Return the state of a process and the fields behind it, the start in ticks 19 further on; none if hidden."""
    try:
        # The command's name before them, in parentheses, may hold blanks and parentheses itself.
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:  # no /proc; or it hides other people's processes; or the process has ended this moment
        return []


def _boot_time_s() -> float | None:
    """Return when the machine was started, in seconds since the epoch; None where that is hidden."""
    try:
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((float(line.split()[1]) for line in lines if line.startswith("btime ")), None)
