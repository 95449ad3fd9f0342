"""A file that is served to downloads, its digests, and what a download leaves in its folder."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import tenacity

CONTENT = random.Random(7).randbytes(3_000_000)
MD5 = hashlib.md5(CONTENT).hexdigest()
AT_ONCE = tenacity.wait_none()


def leftovers(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir())
