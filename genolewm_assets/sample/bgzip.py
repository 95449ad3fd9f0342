"""Blocked gzip (BGZF; SAM specification 1.6, section 4.1) without time stamps, so that equal data give equal bytes."""

from __future__ import annotations

import hashlib
import struct
import zlib
from pathlib import Path

#: The empty block at the end of every complete BGZF file.
END_OF_FILE = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")
_BLOCK_BYTES = 65_280
_LEVEL = 6


def compress_blocks(data: bytes) -> bytes:
    """Return BGZF of blocks of 65,280 bytes, like bgzip's, so that incompressible ones fit the 16-bit block size."""
    blocks = []
    for at in range(0, len(data), _BLOCK_BYTES):
        chunk = data[at : at + _BLOCK_BYTES]
        deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -15)
        body = deflate.compress(chunk) + deflate.flush()
        header = struct.pack("<4BI2BH2BHH", 31, 139, 8, 4, 0, 0, 255, 6, 66, 67, 2, len(body) + 25)
        blocks.append(header + body + struct.pack("<II", zlib.crc32(chunk), len(chunk)))
    return b"".join([*blocks, END_OF_FILE])


def write_bgzip(path: Path, data: bytes) -> None:
    """Write ``data`` as BGZF, and ``<path>.md5``, as the public servers do."""
    packed = compress_blocks(data)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(packed)
    path.with_name(f"{path.name}.md5").write_bytes(md5_line(packed, path.name))


def md5_line(data: bytes, name: str) -> bytes:
    """Return the content of the file beside ``name`` with its MD5."""
    return f"{hashlib.md5(data, usedforsecurity=False).hexdigest()}  {name}\n".encode("ascii")
