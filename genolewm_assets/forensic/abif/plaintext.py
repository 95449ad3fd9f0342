"""The plaintext directory of a scrambled file.

The software of the ABI 3500 writes a run as plain ABIF first, then appends enciphered copies of traces, peaks and dyes,
and a directory that points to these. The plain directory and bytes stay in the file: the directory is found by the
bytes of one of its entries, and accepted if the lengths of its traces are those of the enciphered ones.
"""

from __future__ import annotations

import numpy as np

from genolewm_assets.errors import AbifError
from genolewm_assets.forensic.abif.directory import ENTRY, Entries, check_entries, is_scrambled, tag_keys
from genolewm_assets.forensic.abif.values import C_STRING, ELEMENT_BYTES

#: Most places that are examined; a real file has five.
_MAX_PLACES = 32
#: Most entries of a directory that are looked at to each side of the one found; a real one has 174 in all.
_MAX_ENTRIES = 4_096
#: The cipher works on blocks of eight bytes, and pads the last one by one to eight. It leaves out the zero of a C
#: string.
_BLOCK_BYTES = 8
_TRACE = int.from_bytes(b"DATA", "big")


def unscramble(data: bytes, entries: Entries, offset: int, where: str) -> Entries:
    """Return the entries of a file in order, every enciphered one replaced by its plaintext counterpart if it has one.

    AbifError is raised if no plaintext directory has all traces. ``entries`` at ``offset`` are those of the header.
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
            check_entries(plain, len(data), where)
            merged = entries.copy()
            merged[found >= 0] = plain[found[found >= 0]]
            check_entries(merged, len(data), where)
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


def _is_plausible(entries: Entries, file_bytes: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
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


def _counterparts(entries: Entries, plain: Entries) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
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
