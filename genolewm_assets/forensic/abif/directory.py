"""The directory of an ABIF file: one 28-byte entry per tag, checked against the bytes of the file."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import AbifError

#: Array of entries; its fields are those of :data:`ENTRY`.
Entries = npt.NDArray[Any]

#: One entry. ``offset`` holds the value itself, left-aligned, if it has at most four bytes.
ENTRY = np.dtype(
    [
        ("name", ">u4"),
        ("number", ">u4"),
        ("type", ">u2"),
        ("element_bytes", ">u2"),
        ("n_elements", ">u4"),
        ("n_bytes", ">u4"),
        ("offset", ">u4"),
        ("handle", ">u4"),
    ]
)
#: Bytes of a value that stands in the entry itself, in its last-but-one field.
INLINE_BYTES, INLINE_AT = 4, 20
#: First and last element type of enciphered bytes: 28 for 16-bit numbers, 30 characters, 31 and 32 wider numbers, 33
#: and 34 strings.
SCRAMBLED_TYPES = (28, 34)

_MAGIC, _LFS_MAGIC = b"ABIF", b"version https://git-lfs"
_HEADER_BYTES, _ROOT_AT = 34, 6
_VERSIONS = range(100, 400)
_COPY_AGAIN = "Copy the file from the instrument again"


def read_main_directory(data: bytes, where: str) -> tuple[Entries, int, int]:
    """Return the entries that the header points to, their offset, and the version of the format (101, 300)."""
    _check_magic(data, where)
    version = int.from_bytes(data[4:6], "big")
    root = np.frombuffer(data, ENTRY, 1, _ROOT_AT)[0]
    if version not in _VERSIONS:
        raise AbifError(where, "unknown version of ABIF", expected="100 to 399", got=str(version))
    if int(root["element_bytes"]) != ENTRY.itemsize:
        raise AbifError(
            where, "unknown size of a directory entry", expected=f"{ENTRY.itemsize}", got=str(root["element_bytes"])
        )
    count, offset = int(root["n_elements"]), int(root["offset"])
    end = offset + count * ENTRY.itemsize
    if end > len(data):
        raise AbifError(
            where,
            "is truncated, or its header is damaged: the directory ends after the file",
            expected=f"at least {end:,} bytes",
            got=f"{len(data):,}",
            remedy=_COPY_AGAIN,
        )
    entries = np.frombuffer(data, ENTRY, count, offset)
    check_entries(entries, len(data), where)
    return entries, offset, version


def check_entries(entries: Entries, file_bytes: int, where: str) -> None:
    """Raise AbifError unless every value lies inside the file and all together are no longer than it."""
    sizes = entries["n_bytes"].astype(np.int64)
    stored = np.where(sizes > INLINE_BYTES, sizes, 0)
    outside = np.flatnonzero((stored > 0) & (entries["offset"] + stored > file_bytes))
    if len(outside):
        entry = entries[outside[0]]
        raise AbifError(
            f"{where} tag {tag_label(entry)}",
            "lies outside the file, which is truncated or damaged",
            expected=f"at most {file_bytes:,} bytes",
            got=f"{int(entry['offset']) + int(entry['n_bytes']):,}",
            remedy=_COPY_AGAIN,
        )
    if int(stored.sum()) > file_bytes:
        raise AbifError(
            where, "tags overlap", expected=f"at most {file_bytes:,} bytes in tags", got=f"{int(stored.sum()):,}"
        )


def tag_keys(entries: Entries) -> npt.NDArray[np.uint64]:
    """Return one number per entry, made of name and number: uint64, shape (n_entries,)."""
    keys: npt.NDArray[np.uint64] = (entries["name"].astype(np.uint64) << np.uint64(32)) | entries["number"]
    return keys


def tag_label(entry: Any) -> str:
    """Return name and number of an entry for messages, such as ``DATA 1``; the name is quoted if it is not plain."""
    name = int(entry["name"]).to_bytes(4, "big").decode("latin-1")
    return f"{name if name.isascii() and name.isprintable() else repr(name)} {int(entry['number'])}"


def is_scrambled(entries: Entries) -> npt.NDArray[np.bool_]:
    """Tell which entries hold enciphered bytes: bool, shape (n_entries,)."""
    first, last = SCRAMBLED_TYPES
    return np.asarray((entries["type"] >= first) & (entries["type"] <= last), bool)


def _check_magic(data: bytes, where: str) -> None:
    if data.startswith(_LFS_MAGIC):
        raise AbifError(
            where, "is a Git LFS pointer, not the file that it stands for", remedy="Fetch the file with `git lfs pull`"
        )
    if not data.startswith(_MAGIC):
        got = f"{data[:4]!r}" if data else "an empty file"
        raise AbifError(where, "is not an ABIF file", expected=f"{_MAGIC!r} at the start", got=got)
    if len(data) < _HEADER_BYTES:
        raise AbifError(
            where, "is truncated", expected=f"at least {_HEADER_BYTES} bytes", got=f"{len(data)}", remedy=_COPY_AGAIN
        )
