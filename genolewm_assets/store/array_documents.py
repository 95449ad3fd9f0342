"""``shapes.json``, ``crc.json`` and side-cars as they are found on disk: read with every type and count compared.

A checksum tells that a file is as it was written, not that what was written makes sense: whoever writes a store can
give nonsense a valid one. Of what these files say, nothing is used before it has been compared here.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from typing import Any, cast

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.store.array_keys import CACHE_VERSION
from genolewm_assets.store.array_layout import MOST, ArrayLayout

_CRC = re.compile(r"[0-9a-f]{8}")
_REMEDY = "Build the array store again"


def rows_from_json(document: object, where: str) -> int:
    """Read the row count of ``shapes.json``.

    Raises
    ------
    CorruptResourceError
        If it is none.
    """
    n_rows = document.get("n_rows") if isinstance(document, dict) else None
    if type(n_rows) is not int or not 0 <= n_rows <= MOST:
        expected = f"0 to {MOST}"
        raise CorruptResourceError(where, "row count", expected=expected, got=reprlib.repr(n_rows), remedy=_REMEDY)
    return n_rows


def file_checksums_from_json(document: object, where: str) -> dict[str, int]:
    """Read the CRC-32C of each file from ``crc.json``; whether they are the files of a layout is left to the caller.

    Raises
    ------
    CorruptResourceError
        If it is of another layout version, or not such a document.
    """
    version = document.get("layout_version") if isinstance(document, dict) else None
    if not isinstance(document, dict) or version != CACHE_VERSION:
        expected, got = f"layout version {CACHE_VERSION}", reprlib.repr(version)
        raise CorruptResourceError(where, "cannot be read by this code", expected=expected, got=got, remedy=_REMEDY)
    files = document.get("files")
    if not isinstance(files, dict) or not all(_is_crc(crc) for crc in files.values()):
        raise CorruptResourceError(where, "holds no checksums of files", remedy=_REMEDY)
    return {name: int(crc, 16) for name, crc in files.items()}


def batch_checksums_from_json(
    document: Mapping[str, Any], layout: ArrayLayout, n_rows: int, where: str
) -> dict[str, list[str]]:
    """Read the CRC-32C of each batch, 8 hex digits, by array from ``crc.json``, after comparing it with the layout.

    Raises
    ------
    CorruptResourceError
        If it describes other files, other arrays, or another number of batches.
    """
    if set(document["files"]) != set(layout.described_files):
        expected, got = str(sorted(layout.described_files)), reprlib.repr(sorted(document["files"]))
        raise CorruptResourceError(where, "describes other files", expected=expected, got=got, remedy=_REMEDY)
    arrays, names = document.get("arrays"), {spec.name for spec in layout.arrays}
    if not isinstance(arrays, dict) or set(arrays) != names:
        got = reprlib.repr(arrays)
        raise CorruptResourceError(
            where, "describes other arrays", expected=str(sorted(names)), got=got, remedy=_REMEDY
        )
    for name, crcs in arrays.items():
        if not isinstance(crcs, list) or len(crcs) != layout.n_batches(n_rows) or not all(map(_is_crc, crcs)):
            expected, got = f"{layout.n_batches(n_rows)} of 8 hex digits", reprlib.repr(crcs)
            problem = f"checksums of array {name!r}"
            raise CorruptResourceError(where, problem, expected=expected, got=got, remedy=_REMEDY)
    return arrays


def sidecar_texts_from_json(document: object, where: str) -> list[str]:
    """Read the texts of a side-car by key, which count from 0.

    Raises
    ------
    CorruptResourceError
        If a key is missing or strange, or a value is no text.
    """
    texts = [document.get(str(key)) for key in range(len(document))] if isinstance(document, dict) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise CorruptResourceError(where, "is no side-car", expected="texts by key from 0 on", remedy=_REMEDY)
    return cast("list[str]", texts)


def _is_crc(value: object) -> bool:
    return isinstance(value, str) and _CRC.fullmatch(value) is not None
