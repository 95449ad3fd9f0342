"""Compresses events in SQLite: their JSON repeats itself, and those of assets and checks are stored up to three times.

Texts that other versions or other storages wrote are read as they are.
"""

from __future__ import annotations

import zlib
from typing import Any

import sqlalchemy as db

# Dagster has no public names for its tables; the family is pinned, and tests read what was written.
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable, SqlEventLogStorageTable

from genolewm_assets.defs.event_dictionary import DICTIONARY_1

#: First byte of a packed text: which dictionary it was packed with.
_PACKED = b"\x01"
_LEAST_CHARACTERS = 200


class _PackedText(db.types.TypeDecorator[str]):
    """A text that is a compressed blob in SQLite."""

    impl = db.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: db.Dialect) -> Any:
        if value is None or dialect.name != "sqlite" or len(value) < _LEAST_CHARACTERS:
            return value
        return pack(value)

    def process_result_value(self, value: Any, _: db.Dialect) -> str | None:
        return unpack(value) if isinstance(value, bytes) else value


def pack(text: str) -> bytes:
    """Return a text compressed by means of the dictionary of this version."""
    deflate = zlib.compressobj(zdict=DICTIONARY_1)
    return _PACKED + deflate.compress(text.encode()) + deflate.flush()


def unpack(packed: bytes) -> str:
    """Return the text that :func:`pack` compressed; raises ``zlib.error`` for other bytes."""
    if not packed.startswith(_PACKED):
        raise zlib.error("an event was written by a newer version of genolewm_assets")
    inflate = zlib.decompressobj(zdict=DICTIONARY_1)
    return (inflate.decompress(packed[1:]) + inflate.flush()).decode()


def install() -> None:
    """Let this process read and write packed events, whatever storage of Dagster it opens."""
    for column in (SqlEventLogStorageTable.c.event, AssetCheckExecutionsTable.c.evaluation_event):
        column.type = _PackedText()
