"""Export of the index of window hashes as one SQLite file, the form that RFC-0006 section 3.6 names."""

from __future__ import annotations

import heapq
import os
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from genolewm_assets.errors import ResourceError
from genolewm_assets.states.index import open_cache_index
from genolewm_assets.states.row_lookup import RowLookup
from genolewm_assets.store.artefacts import Root
from genolewm_assets.store.tables import check_output

_TABLES = """
CREATE TABLE stores (number INTEGER PRIMARY KEY, location TEXT NOT NULL UNIQUE, label TEXT NOT NULL,
                     manifest_sha256 TEXT NOT NULL, n_rows INTEGER NOT NULL);
CREATE TABLE omitted (location TEXT PRIMARY KEY, reason TEXT NOT NULL);
CREATE TABLE addresses (hash BLOB NOT NULL, store INTEGER NOT NULL, row INTEGER NOT NULL,
                        PRIMARY KEY (hash, store, row)) WITHOUT ROWID;
"""


def export_cache_index(root: Root, output: Path, *, overwrite: bool = False) -> int:
    """Write the index of a root to a SQLite file and return its number of rows.

    Tables: ``stores`` (number, location, label, manifest_sha256, n_rows), ``omitted`` (location, reason), and
    ``addresses`` (hash, store, row): ``window_hash`` of 32 bytes, number of the store, 0-based row in it.

    Raises
    ------
    InputError
        If the output exists, or its folder does not.
    CorruptResourceError, MissingResourceError
        As :func:`open_cache_index`.
    ResourceError
        If the file system refuses; no file is written then.
    """
    check_output(output, overwrite=overwrite)
    index = open_cache_index(root)
    scratch = output.with_name(f".{output.name}.{secrets.token_hex(4)}.tmp")
    rows = heapq.merge(*(_numbered(number, lookup) for number, lookup in enumerate(index.lookups.values())))
    caches = enumerate(index.lookups)
    try:
        with closing(sqlite3.connect(scratch, isolation_level=None)) as file:
            # No journal is needed: the file is renamed only after it is complete.
            file.executescript(f"PRAGMA journal_mode = OFF; {_TABLES} BEGIN")
            stores = [(number, c.location, c.label, c.manifest_sha256, c.n_rows) for number, c in caches]
            file.executemany("INSERT INTO stores VALUES (?, ?, ?, ?, ?)", stores)
            file.executemany("INSERT INTO omitted VALUES (?, ?)", sorted(index.omitted.items()))
            file.executemany("INSERT INTO addresses VALUES (?, ?, ?)", rows)
            file.execute("COMMIT")
        os.replace(scratch, output)  # noqa: PTH105
    except sqlite3.Error as err:
        raise ResourceError(
            str(output), f"cannot be written ({err})", remedy="Check the disk, free some space"
        ) from err
    finally:
        scratch.unlink(missing_ok=True)
    return sum(cache.n_rows for cache in index.lookups)


def _numbered(number: int, lookup: RowLookup) -> Iterator[tuple[bytes, int, int]]:
    return ((digest, number, row) for digest, row in lookup.records())
