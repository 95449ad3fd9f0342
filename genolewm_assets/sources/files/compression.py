"""Detect the compression of a text file from its bytes; the file name is not used."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import BinaryIO

#: The empty block that ends every complete BGZF file (SAM specification, section 4.1.2).
BGZF_END = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")
_HEADER_BYTES = 18
_HAS_EXTRA_FIELD = 4


class Compression(StrEnum):
    """Compression of a text file: BGZF, any other gzip, or none."""

    BGZF = "bgzf"
    GZIP = "gzip"
    PLAIN = "plain"


def detect_compression(file: BinaryIO) -> Compression:
    """Return the compression of an open binary file, read from its first 18 bytes; the position is then 0."""
    file.seek(0)
    head = file.read(_HEADER_BYTES)
    file.seek(0)
    if not head.startswith(b"\x1f\x8b"):
        return Compression.PLAIN
    # BGZF is gzip whose first extra subfield is BC (SAM specification, section 4.1).
    blocked = len(head) == _HEADER_BYTES and head[3] & _HAS_EXTRA_FIELD and head[12:14] == b"BC"
    return Compression.BGZF if blocked else Compression.GZIP


def has_bgzf_end(file: BinaryIO) -> bool:
    """Return whether an open BGZF file ends with the empty end-of-file block; the position is then 0."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - len(BGZF_END)))
    complete = file.read() == BGZF_END
    file.seek(0)
    return complete
