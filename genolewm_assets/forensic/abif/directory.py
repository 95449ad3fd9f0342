"""The directory of an ABIF file: one 28-byte entry per tag, checked against the bytes of the file, and in plaintext."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import AbifError
from genolewm_assets.forensic.abif.values import C_STRING, ELEMENT_BYTES

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
_SCRAMBLED_TYPES = (28, 34)

_MAGIC, _LFS_MAGIC = b"ABIF", b"version https://git-lfs"
_HEADER_BYTES, _ROOT_AT = 34, 6
_VERSIONS = range(100, 400)
_COPY_AGAIN = "Copy the file from the instrument again"
#: Most places that are examined; a real file has five.
_MAX_PLACES = 32
#: Most entries of a directory that are looked at to each side of the one found; a real one has 174 in all.
_MAX_ENTRIES = 4_096
#: The cipher works on blocks of eight bytes, and pads the last one by one to eight. It leaves out the zero of a C
#: string.
_BLOCK_BYTES = 8
_TRACE = int.from_bytes(b"DATA", "big")


def read_directory(data: bytes, where: str) -> tuple[Entries, int]:
    """Return the entries of a file, in plaintext where it has that, and the version of the format (101, 300)."""
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
    _check_entries(entries, len(data), where)
    return _unscramble(data, entries, offset, where), version


def _check_entries(entries: Entries, file_bytes: int, where: str) -> None:
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
    """Tell which entries, or whether one, hold enciphered bytes: bool, shape (n_entries,), or ()."""
    first, last = _SCRAMBLED_TYPES
    return np.asarray((entries["type"] >= first) & (entries["type"] <= last), bool)


def _unscramble(data: bytes, entries: Entries, offset: int, where: str) -> Entries:
    """Return entries that begin at ``offset``, enciphered ones replaced by their plaintext counterparts.

    The software of the ABI 3500 writes a run as plain ABIF first, then appends enciphered copies of traces, peaks and
    dyes, and a directory that points to these. The plain directory stays: it is found by the bytes of one of its
    entries, and accepted if the lengths of its traces are those of the enciphered ones; else AbifError is raised.
    """
    scrambled = is_scrambled(entries)
    if not scrambled.any():
        return entries
    traces = np.flatnonzero(scrambled & (entries["name"] == _TRACE))
    sought = entries[traces[0] if len(traces) else np.flatnonzero(scrambled)[0]]
    pattern = sought.tobytes()[:8]
    end = offset
    for _ in range(_MAX_PLACES):
        end = data.rfind(pattern, 0, end)
        if end < 0:
            break
        plain = _directory_around(data, end, min(len(entries), _MAX_ENTRIES))
        found = _counterparts(entries, plain)
        if len(plain) and (found[traces] >= 0).all():
            _check_entries(plain, len(data), where)
            merged = entries.copy()
            merged[found >= 0] = plain[found[found >= 0]]
            _check_entries(merged, len(data), where)
            return merged
    raise AbifError(
        where,
        "its tags are scrambled and it has no plaintext directory",
        expected=f"a directory with the {len(traces)} traces",
        got="none",
        remedy="Export the run again with the instrument's software, or as .fsa",
    )


def _directory_around(data: bytes, place: int, reach: int) -> Entries:
    """Return the longest stretch of plausible plaintext entries with one at ``place``, ``reach`` to each side."""
    before = min(place // ENTRY.itemsize, reach)
    start = place - before * ENTRY.itemsize
    count = min((len(data) - start) // ENTRY.itemsize, before + reach)
    entries = np.frombuffer(data, ENTRY, count, start)
    wrong = np.flatnonzero(~_is_plausible(entries, len(data)))
    first = int(np.searchsorted(wrong, before))
    low = int(wrong[first - 1]) + 1 if first else 0
    high = int(wrong[first]) if first < len(wrong) else count
    return entries[low:high]


def _is_plausible(entries: Entries, file_bytes: int) -> npt.NDArray[np.bool_]:
    sizes = entries["n_bytes"].astype(np.int64)
    elements = ELEMENT_BYTES[np.minimum(entries["type"], len(ELEMENT_BYTES) - 1)]
    names = np.ascontiguousarray(entries["name"]).view(np.uint8).reshape(-1, 4)
    return np.asarray(
        (elements >= 0)
        & ((elements == 0) | (elements == entries["element_bytes"]))
        & (entries["n_elements"].astype(np.int64) * entries["element_bytes"] == sizes)
        & ((sizes <= 4) | (entries["offset"] + sizes <= file_bytes))
        & ((names >= 32) & (names < 127)).all(axis=1)
    )


def _counterparts(entries: Entries, plain: Entries) -> npt.NDArray[np.intp]:
    """Return for each scrambled entry the row of ``plain`` with its name, number and length; -1 for none."""
    keys, wanted = tag_keys(plain), tag_keys(entries)
    order = np.argsort(keys, kind="stable")
    found = np.full(len(entries), -1, np.intp)
    if not len(plain):
        return found
    rows = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(plain) - 1)]
    enciphered = plain["n_bytes"][rows].astype(np.int64) - (plain["type"][rows] == C_STRING)
    padded = (enciphered // _BLOCK_BYTES + 1) * _BLOCK_BYTES
    same = (keys[rows] == wanted) & is_scrambled(entries) & (padded == entries["n_bytes"])
    found[same] = rows[same]
    return found
