"""Identify a process, and find out whether a process of this machine still runs (Linux, proc(5))."""

from __future__ import annotations

import os
import re
from pathlib import Path

# Tolerance, in seconds, between the clock of a log and that of the process table.
_CLOCKS_DIFFER_S = 2.0


def boot_id() -> str:
    """Return the kernel's boot id, which changes with every boot; empty if it cannot be read."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def pid_namespace() -> str:
    """Return the PID namespace of this process, such as ``pid:[4026531836]``; empty if it cannot be read."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def machine_id() -> str:
    """Return the id of this installation (machine-id(5)), which restarts keep; empty if it has none, as in containers.

    Unlike a host name, it tells a machine that was restarted from another machine of the same name.
    """
    try:
        found = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except (OSError, UnicodeError):
        return ""
    return found if re.fullmatch(r"[0-9a-f]{32}", found) else ""


def started_ticks(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot; None if it cannot be read."""
    fields = _state_and_after(pid)
    return int(fields[19]) if fields else None


def is_same_process(pid: int, ticks: int | None) -> bool:
    """Return whether the process with this id and start time runs, not as a zombie; True if that is unknown."""
    if not _exists(pid):
        return False
    fields = _state_and_after(pid)
    return not fields or (fields[0] not in "ZX" and ticks in {None, int(fields[19])})


def is_running(pid: int, began_before: float) -> bool:
    """Return whether the process with this id runs and started before a time; True if that cannot be found out.

    A process that started later than ``began_before``, in seconds since the epoch, got the id of one that has ended.
    """
    if not _exists(pid):
        return False
    fields, boot_time_s = _state_and_after(pid), _boot_time_s()
    if not fields or boot_time_s is None:
        return True
    began = boot_time_s + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return fields[0] not in "ZX" and began <= began_before + _CLOCKS_DIFFER_S


def _exists(pid: int) -> bool:
    """Return whether a process with this id exists; zombies count."""
    try:
        os.kill(pid, 0)
    except OSError as err:
        return not isinstance(err, ProcessLookupError)
    return True


def _state_and_after(pid: int) -> list[str]:
    """Return the fields of ``/proc/<pid>/stat`` from the state on: [0] state, [19] start time; [] if unreadable."""
    try:
        # The command name before the state is in parentheses and may itself contain spaces and parentheses.
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:  # no /proc, other users' processes are hidden, or the process has just ended
        return []


def _boot_time_s() -> float | None:
    """Return the boot time in seconds since the epoch; None if it cannot be read."""
    try:
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((float(line.split()[1]) for line in lines if line.startswith("btime ")), None)
