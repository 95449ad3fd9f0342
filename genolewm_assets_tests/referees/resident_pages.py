"""Resident pages of files, as ``/proc/PID/smaps`` counts them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path


def resident_bytes(files: Iterable[Path], pid: int | str = "self") -> int:
    """Return the bytes of some files, or of all files in some folders, that a process has resident."""
    places = [str(path.resolve()) for path in files]
    parts = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path(f"/proc/{pid}/smaps").read_text(), flags=re.MULTILINE)
    own = [part for part in parts if any(place in part.partition("\n")[0] for place in places)]
    return sum(int(re.findall(r"^Rss:\s+(\d+) kB", part, re.MULTILINE)[0]) << 10 for part in own)
