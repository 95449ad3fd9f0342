"""The scheme of a URL, by which a URL is told from a path."""

from __future__ import annotations

import re

#: Scheme and ``://`` at the start of a URL.
SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
