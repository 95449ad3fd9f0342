"""The scheme of a URL, which distinguishes a URL from a path."""

from __future__ import annotations

import re

#: Matches scheme and ``://`` at the start of a URL; group 1 is the scheme.
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
