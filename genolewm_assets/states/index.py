"""Index from window hashes to cached rows: the look-ups of all published caches of a root.

Each cache has its own look-up (``row_lookup``), which publishing others does not change. One hash can have many rows.
"""

from __future__ import annotations

import heapq
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import NamedTuple

from genolewm_assets.errors import CorruptResourceError, InputError, MissingResourceError, ResourceError
from genolewm_assets.progress import NO_PROGRESS, ByteCount, Progress
from genolewm_assets.states.row_lookup import RowLookup, lookup_path, write_lookup
from genolewm_assets.states.window_tables import window_table_of
from genolewm_assets.store.artefacts import Finding, FindingKind, Manifest, Root, links, read_manifest
from genolewm_assets.store.files import (
    JsonValue,
    is_published_link,
    link_of_generation,
    normal_json,
    reading,
    resolve_generation,
    split_generation_name,
)
from genolewm_assets.store.tables import check_output

#: Folder, relative to the root, whose caches are searched.
CACHES = "embeddings"

# Most faults that a message lists.
_MAX_LISTED = 3
_TABLES = """
CREATE TABLE stores (number INTEGER PRIMARY KEY, location TEXT NOT NULL UNIQUE, label TEXT NOT NULL,
                     manifest_sha256 TEXT NOT NULL, n_rows INTEGER NOT NULL);
CREATE TABLE omitted (location TEXT PRIMARY KEY, reason TEXT NOT NULL);
CREATE TABLE addresses (hash BLOB NOT NULL, store INTEGER NOT NULL, row INTEGER NOT NULL,
                        PRIMARY KEY (hash, store, row)) WITHOUT ROWID;
"""


class RowAddress(NamedTuple):
    """Address of a row: location of the cache, 0-based row number."""

    store: str
    row: int


@dataclass(frozen=True, slots=True)
class IndexedCache:
    """A published cache: root-relative path of its link, and what its manifest says."""

    location: str
    label: str
    manifest_sha256: str
    n_rows: int


@dataclass(frozen=True, slots=True)
class CacheIndexReport:
    """Caches that are searched, those that cannot be with the reason, rows of the former, look-ups made by the call."""

    path: str
    caches: tuple[IndexedCache, ...]
    omitted: dict[str, str]
    rows: int
    made: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, JsonValue]:
        """Return the report as JSON values."""
        return normal_json(asdict(self), self.path)


@dataclass(frozen=True, slots=True)
class CacheIndex:
    """The open look-ups of a root's caches, sorted by location, and why others can have none, by location."""

    path: Path
    lookups: dict[IndexedCache, RowLookup] = field(default_factory=dict)
    omitted: dict[str, str] = field(default_factory=dict)

    def find(self, wanted: bytes) -> list[RowAddress]:
        """Return the addresses of the rows that have a hash, sorted by store and row; empty if there are none.

        ``wanted``: a hash of 32 bytes, or its first 16 to 31 bytes; with a prefix, the result is sorted by hash first.
        """
        found = [
            (digest, RowAddress(cache.location, row))
            for cache, lookup in self.lookups.items()
            for digest, row in lookup.find(wanted)
        ]
        return [address for _, address in sorted(found)]

    def report(self, made: Sequence[str] = ()) -> CacheIndexReport:
        """Return what is searched and what is not."""
        rows = sum(cache.n_rows for cache in self.lookups)
        return CacheIndexReport(str(self.path), tuple(self.lookups), self.omitted, rows, tuple(made))


def parse_window_hash(text: str) -> bytes:
    """Return the bytes of a hexadecimal ``window_hash`` (32) or ``window_id`` (16); InputError for other texts."""
    if not re.fullmatch(r"[0-9a-fA-F]{32}([0-9a-fA-F]{32})?", text):
        raise InputError(
            repr(text),
            "is not a window hash",
            expected="64 hex digits, or the 32 of a window_id",
            got=f"{len(text)} characters",
            remedy="Copy a window_id from the table of windows/index",
        )
    return bytes.fromhex(text)


def index_cache(root: Root, generation: Path, *, progress: Progress = NO_PROGRESS) -> bool:
    """Make the look-up of one published cache if it is missing or damaged; return whether it was made.

    Nothing is read of other caches.

    Raises
    ------
    CorruptResourceError, MissingResourceError
        If the cache's manifest or its window table is damaged or missing.
    ResourceError
        If the file system refuses; what was there stays.
    """
    cache, manifest = _read_cache(root, generation)
    with root.storage_errors(cache.location):
        try:
            _open_lookup(cache, manifest, generation).verify()
        except (CorruptResourceError, MissingResourceError):
            table = window_table_of(manifest, root.path)
            table.check_bytes(ByteCount(progress, table.size_bytes))
            table.check_rows(cache.n_rows)
            write_lookup(lookup_path(generation), table, cache.n_rows)
            return True
    return False


def refresh_cache_index(root: Root, *, progress: Progress = NO_PROGRESS) -> CacheIndexReport:
    """Run :func:`index_cache` for every published cache; those that can have no look-up are listed as omitted.

    Raises
    ------
    MissingResourceError
        If the folder is not a root.
    ResourceError
        If the file system refuses.
    """
    root.check_is_root()
    index, made = CacheIndex(root.path / CACHES), []
    for location, link in _links(root):
        try:
            generation = resolve_generation(link)
            if index_cache(root, generation, progress=progress):
                made.append(location)
            cache, manifest = _read_cache(root, generation)
            index.lookups[cache] = _open_lookup(cache, manifest, generation)
        except (CorruptResourceError, MissingResourceError) as err:
            index.omitted[location] = str(err)
    return index.report(made)


def open_cache_index(root: Root) -> CacheIndex:
    """Open the look-ups of all published caches.

    Raises
    ------
    MissingResourceError
        If the folder is not a root.
    CorruptResourceError
        If a look-up is missing or damaged and can be made, because the answer "not there" would be wrong.
    """
    index, faults = _open_lookups(root)
    _raise_first(index, faults)
    return index


def check_cache_index(root: Root) -> CacheIndexReport:
    """Open all look-ups and compare every record with its checksum; errors are those of :func:`open_cache_index`."""
    index, faults = _open_lookups(root, verify=True)
    _raise_first(index, faults)
    return index.report()


def find_index_faults(root: Root) -> list[Finding]:
    """Return the missing and damaged look-ups of a root, in addition to the findings of :func:`verify_root`.

    Raises
    ------
    ResourceError
        If the folder is not a root, or a folder in it cannot be read.
    """
    findings = []
    for cache, err in _open_lookups(root, verify=True)[1]:
        # A cache is published before its look-up is made.
        kind = FindingKind.STALE if isinstance(err, MissingResourceError) else FindingKind.CORRUPT
        findings.append(Finding.of_error(kind, cache.location, err))
    return findings


_Faults = list[tuple[IndexedCache, ResourceError]]


def _open_lookups(root: Root, *, verify: bool = False) -> tuple[CacheIndex, _Faults]:
    """Open all look-ups, and list those at fault whose window table is there to make them again."""
    root.check_is_root()
    index, faults = CacheIndex(root.path / CACHES), []
    for location, link in _links(root):
        try:
            generation = resolve_generation(link)
            cache, manifest = _read_cache(root, generation)
            try:
                lookup = _open_lookup(cache, manifest, generation)
                if verify:
                    lookup.verify()
                index.lookups[cache] = lookup
            except ResourceError as err:
                window_table_of(manifest, root.path)
                faults.append((cache, err))
        except ResourceError as err:
            index.omitted[location] = str(err)
    return index, faults


def _raise_first(index: CacheIndex, faults: _Faults) -> None:
    if faults:
        listed = "; ".join(f"{cache.location} ({cache.label}): {err.problem}" for cache, err in faults[:_MAX_LISTED])
        more = f"; and {len(faults) - _MAX_LISTED} more" if len(faults) > _MAX_LISTED else ""
        problem = f"some caches cannot be searched: {listed}{more}"
        raise CorruptResourceError(str(index.path), problem, remedy=faults[0][1].remedy)


def _links(root: Root) -> list[tuple[str, Path]]:
    """Return location and link of every published cache, sorted."""
    with reading(root.path):
        found = [link for link in links(root.path / CACHES) if is_published_link(link)]
    return [(str(link.relative_to(root.path)), link) for link in found]


def _read_cache(root: Root, generation: Path) -> tuple[IndexedCache, Manifest]:
    location = str(link_of_generation(generation).relative_to(root.path))
    manifest, parts = read_manifest(generation), split_generation_name(generation.name)
    if parts is None or parts[1] != manifest.sha256[:12]:
        raise CorruptResourceError(location, "its manifest was altered", remedy=f"Rebuild {manifest.where}")
    if "windows" not in manifest.counts:
        raise CorruptResourceError(location, "its manifest has no count of windows", remedy=f"Rebuild {manifest.where}")
    return IndexedCache(location, manifest.where, manifest.sha256, manifest.counts["windows"]), manifest


def _open_lookup(cache: IndexedCache, manifest: Manifest, generation: Path) -> RowLookup:
    return RowLookup(lookup_path(generation), str(manifest.recipe.get("windows_sha256")), cache.n_rows)


def export_cache_index(root: Root, output: Path, *, overwrite: bool = False) -> int:
    """Write the index of a root to a SQLite file (RFC-0006 section 3.6) and return its number of rows.

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
    # Only the export needs it.
    import sqlite3

    check_output(output, overwrite=overwrite)
    index = open_cache_index(root)
    scratch = output.with_name(f".{output.name}.{secrets.token_hex(4)}.tmp")
    rows = heapq.merge(*(_numbered(number, lookup) for number, lookup in enumerate(index.lookups.values())))
    try:
        with closing(sqlite3.connect(scratch, isolation_level=None)) as file:
            # No journal is needed: the file is renamed only after it is complete.
            file.executescript(f"PRAGMA journal_mode = OFF; {_TABLES} BEGIN")
            stores = [(number, *astuple(cache)) for number, cache in enumerate(index.lookups)]
            file.executemany("INSERT INTO stores VALUES (?, ?, ?, ?, ?)", stores)
            file.executemany("INSERT INTO omitted VALUES (?, ?)", sorted(index.omitted.items()))
            file.executemany("INSERT INTO addresses VALUES (?, ?, ?)", rows)
            file.execute("COMMIT")
        os.replace(scratch, output)  # noqa: PTH105
    except sqlite3.Error as err:
        problem, remedy = f"cannot be written ({err})", "Check the disk, free some space"
        raise ResourceError(str(output), problem, remedy=remedy) from err
    finally:
        scratch.unlink(missing_ok=True)
    return sum(cache.n_rows for cache in index.lookups)


def _numbered(number: int, lookup: RowLookup) -> Iterator[tuple[bytes, int, int]]:
    return ((digest, number, row) for digest, row in lookup.records())
