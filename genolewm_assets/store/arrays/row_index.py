"""Index of the rows of many stores by hash: one SQLite file, derived from the stores and rebuilt at any time.

::

    stores     number, location, label, manifest_sha256, n_rows: indexed stores, with the manifest of their generation
    omitted    location, reason: stores that could not be indexed
    addresses  hash (32 bytes), store, row, crc32c of these three; sorted by them; a hash may have many rows
    summary    name, value: number of distinct hashes, number of rows, crc32c of these and of stores and omitted

A new file is built in a work directory and renamed over the old one, which its readers keep open.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import CorruptResourceError, InputError, MissingResourceError, ResourceError
from genolewm_assets.store.arrays.layout import crc32c
from genolewm_assets.store.artefacts import Root
from genolewm_assets.store.files import make_directories, open_plain, sync_directory
from genolewm_assets.store.locks import WriterLease

#: Length of a hash in bytes, and of the shortest prefix that can be searched for.
HASH_BYTES, SHORTEST_BYTES = 32, 16
#: Number of rows sorted in memory at a time, about 1 GB.
SORTED_AT_ONCE = 8_000_000
#: Hashes of a store in row order, in pieces: uint8, shape (n, 32).
Hashes: TypeAlias = Iterator[npt.NDArray[np.uint8]]

_REMEDY = "Make it again: genolewm cache index"
# PRAGMA application_id, which file(1) shows, and user_version, the version of these tables.
_APPLICATION_ID, _VERSION = 0x474C5749, 2
_TABLES = """
CREATE TABLE stores (number INTEGER PRIMARY KEY, location TEXT NOT NULL UNIQUE, label TEXT NOT NULL,
                     manifest_sha256 TEXT NOT NULL, n_rows INTEGER NOT NULL);
CREATE TABLE omitted (location TEXT PRIMARY KEY, reason TEXT NOT NULL);
CREATE TABLE summary (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE addresses (hash BLOB NOT NULL, store INTEGER NOT NULL, row INTEGER NOT NULL, crc32c INTEGER NOT NULL,
                        PRIMARY KEY (hash, store, row)) WITHOUT ROWID;
"""
_COUNTS = "WHERE name <> 'crc32c' ORDER BY name"
_RECORD = np.dtype([("hash", f"V{HASH_BYTES}"), ("store", "<i4"), ("row", "<i8")])
_INHERITED: list[object] = []


@dataclass(frozen=True, slots=True)
class IndexedStore:
    """A store whose rows are in the index.

    Attributes
    ----------
    location
        Root-relative path of the store's link.
    manifest_sha256
        Digest of the manifest of the indexed generation.
    """

    location: str
    label: str
    manifest_sha256: str
    n_rows: int


class RowAddress(NamedTuple):
    """Address of a row: location of the store, 0-based row number."""

    store: str
    row: int


@dataclass(frozen=True, slots=True)
class HashSource:
    """A store to index, and a function that reads the hashes of its rows; it may be called several times."""

    store: IndexedStore
    read: Callable[[], Hashes]


def publish_row_index(
    root: Root,
    location: str,
    lease: WriterLease,
    sources: Iterable[HashSource],
    omitted: Mapping[str, str],
    *,
    at_once: int = SORTED_AT_ONCE,
) -> None:
    """Build the index of some stores at a root-relative path and replace the existing index atomically.

    Parameters
    ----------
    lease
        Lock of the location.
    sources, omitted
        Stores to index; for stores that cannot be indexed, the reason by location.
    at_once
        Number of rows sorted in memory at a time; the result does not depend on it.

    Raises
    ------
    CorruptResourceError
        If the number of hashes of a store differs from its rows, or a folder exists at the path of the index.
    BusyError, ResourceError
        If the lock was lost, or writing to disk fails; the existing index is kept.
    """
    path = root.path_of(location)
    if path.is_dir():
        raise CorruptResourceError(str(path), "is a folder, not a row index", remedy="Remove the folder")
    root.sweep(location, lease)
    work = root.work_dir(location, lease)
    try:
        _write(work / path.name, sorted(sources, key=lambda s: s.store.location), omitted, at_once)
        with (work / path.name).open("rb") as handle:
            os.fsync(handle.fileno())
        make_directories(path.parent)
        with lease.fenced():
            os.replace(work / path.name, path)  # noqa: PTH105 - the crash tests kill at the functions of `os`
        sync_directory(path.parent)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _write(path: Path, sources: Sequence[HashSource], omitted: Mapping[str, str], at_once: int) -> None:
    with _storage_errors(path), closing(sqlite3.connect(path, isolation_level=None)) as file:
        # No journal is needed: the file is renamed into place only after it is complete and synced.
        file.executescript(
            f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;"
            f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {_VERSION}; {_TABLES} BEGIN"
        )
        stores = [source.store for source in sources]
        file.executemany(
            "INSERT INTO stores VALUES (?, ?, ?, ?, ?)",
            ((n, s.location, s.label, s.manifest_sha256, s.n_rows) for n, s in enumerate(stores)),
        )
        file.executemany("INSERT INTO omitted VALUES (?, ?)", sorted(omitted.items()))
        n_rows, n_hashes = sum(store.n_rows for store in stores), 0
        for records in _sorted_records(sources, -(-n_rows // at_once)):
            file.executemany("INSERT INTO addresses VALUES (?, ?, ?, ?)", _insertable(records))
            hashes = records["hash"]
            # All rows of a hash are in the same piece.
            n_hashes += int(np.count_nonzero(hashes[1:] != hashes[:-1])) + bool(len(hashes))
        insert = "INSERT INTO summary VALUES (?, ?)"
        file.executemany(insert, [("hashes", n_hashes), ("rows", n_rows)])
        file.execute(insert, ("crc32c", _named_crc32c(file)))
        file.execute("COMMIT")


def _named_crc32c(file: sqlite3.Connection) -> int:
    """Return the CRC-32C of the tables stores, omitted and summary."""
    tables = ("stores ORDER BY number", "omitted ORDER BY location", f"summary {_COUNTS}")
    return crc32c(repr([file.execute(f"SELECT * FROM {table}").fetchall() for table in tables]).encode())  # noqa: S608


def _sorted_records(sources: Sequence[HashSource], pieces: int) -> Iterator[npt.NDArray[np.void]]:
    """Yield all records, sorted by hash, store and row, in pieces; a piece is a range of the hash's first two bytes."""
    bounds = [65_536 * n // max(1, pieces) for n in range(pieces + 1)]
    for low, high in pairwise(bounds):
        chosen = [part for number, source in enumerate(sources) for part in _choose(number, source, low, high)]
        records = np.concatenate([np.zeros(0, _RECORD), *chosen])
        words = np.ascontiguousarray(records["hash"]).view(">u8").reshape(-1, HASH_BYTES // 8)
        yield records[np.lexsort((records["row"], records["store"], *words.T[::-1]))]


def _choose(number: int, source: HashSource, low: int, high: int) -> Iterator[npt.NDArray[np.void]]:
    """Yield the records of a store whose hashes have their first two bytes in ``[low, high)``."""
    first = 0
    for hashes in source.read():
        leading = hashes[:, 0].astype(np.int32) * 256 + hashes[:, 1]
        (rows,) = np.nonzero((low <= leading) & (leading < high))
        records = np.zeros(len(rows), _RECORD)
        records["hash"] = np.ascontiguousarray(hashes[rows]).view(f"V{HASH_BYTES}")[:, 0]
        records["store"], records["row"] = number, rows + first
        first += len(hashes)
        yield records
    if first != source.store.n_rows:
        raise CorruptResourceError(
            source.store.location,
            "the number of hashes differs from the number of rows",
            expected=f"{source.store.n_rows} hashes",
            got=str(first),
            remedy="Build the store again",
        )


def _insertable(records: npt.NDArray[np.void]) -> Iterator[tuple[bytes, int, int, int]]:
    data, size = memoryview(records.tobytes()), _RECORD.itemsize
    pairs = zip(records["store"].tolist(), records["row"].tolist(), strict=True)
    for at, (store, row) in zip(range(0, len(data), size), pairs, strict=True):
        record = bytes(data[at : at + size])
        yield record[:HASH_BYTES], store, row, crc32c(record)


@contextmanager
def _storage_errors(path: Path) -> Iterator[None]:
    """Convert SQLite's errors, which have no errno, to :class:`ResourceError`."""
    try:
        yield
    except sqlite3.Error as err:
        raise ResourceError(
            str(path),
            f"the storage refused to write ({err})",
            remedy="Check the disk, free some space, and run it again",
        ) from err


class RowIndex:
    """Reader of a row index; a context manager.

    Each process opens the file at its first query and keeps it open. Threads of a process share the connection.

    Raises
    ------
    MissingResourceError
        At the first query, if the file does not exist.
    CorruptResourceError
        At the first query, or when a damaged part is read, if the file is truncated, altered or not a row index.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path).absolute()
        self._file: sqlite3.Connection | None = None
        self._pid = os.getpid()
        self._stores: dict[int, IndexedStore] = {}
        self._guard = threading.Lock()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.path,)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the next query opens it again."""
        if self._pid == os.getpid():
            with self._guard:  # wait for the query of another thread
                if self._file is not None:
                    self._file.close()
                self._file = None

    @property
    def stores(self) -> list[IndexedStore]:
        """Indexed stores, sorted by location."""
        with self._opened():
            return list(self._stores.values())

    @property
    def omitted(self) -> dict[str, str]:
        """Stores that are not indexed: reason by location."""
        return dict(self._all("SELECT location, reason FROM omitted ORDER BY location"))

    @property
    def summary(self) -> dict[str, int]:
        """Number of distinct ``hashes`` and of ``rows``."""
        return dict(self._all(f"SELECT name, value FROM summary {_COUNTS}"))  # noqa: S608

    def find(self, wanted: bytes) -> list[RowAddress]:
        """Return the addresses of the rows that have a hash, sorted by store and row; empty if there are none.

        Parameters
        ----------
        wanted
            Hash of 32 bytes, or its first 16 to 31 bytes; with a prefix, the result is sorted by hash first.

        Raises
        ------
        InputError, CorruptResourceError
            If the length is wrong, or a record of the hash was altered.
        """
        return self.find_many([wanted])[0]

    def find_many(self, wanted: Iterable[bytes]) -> list[list[RowAddress]]:
        """Return the result of :meth:`find` for each hash, in the order given; errors are those of :meth:`find`."""
        # BETWEEN includes both bounds, so a whole hash, padded by nothing, is found by equality.
        query = "SELECT hash, store, row, crc32c FROM addresses WHERE hash BETWEEN ? AND ? ORDER BY hash, store, row"
        found = []
        begins = list(wanted)  # before the lock is taken: the iterable may query this index itself
        with self._opened() as file:
            for begin in begins:
                self._check_length(begin)
                ends = begin.ljust(HASH_BYTES, b"\x00"), begin.ljust(HASH_BYTES, b"\xff")
                found.append([self._address(*row) for row in file.execute(query, ends)])
        return found

    def verify(self) -> list[str]:
        """Read the whole index and return one line per difference from what was written; empty if it is intact."""
        try:
            with self._opened() as file:
                counts = dict.fromkeys(self._stores, 0)
                for found in file.execute("SELECT hash, store, row, crc32c FROM addresses"):
                    self._address(*found)
                    counts[found[1]] += 1
                wrong = [(s, counts[n]) for n, s in self._stores.items() if s.n_rows != counts[n]]
                return [f"{s.location}: rows are missing: expected {s.n_rows}, got {count}" for s, count in wrong]
        except CorruptResourceError as err:
            return [err.problem + (f": expected {err.expected}, got {err.got}" if err.expected else "")]

    def _address(self, *found: object) -> RowAddress:
        match found:
            case bytes() as wanted, int() as store, int() as row, int() as crc if (
                store in self._stores and crc == crc32c(wanted + struct.pack("<iq", store, row))
            ):
                return RowAddress(self._stores[store].location, row)
        raise self._corrupt("a record differs from what was written")

    def _check_length(self, wanted: bytes) -> None:
        if not SHORTEST_BYTES <= len(wanted) <= HASH_BYTES:
            raise InputError(
                "hash", "wrong length", expected=f"{SHORTEST_BYTES} to {HASH_BYTES} bytes", got=f"{len(wanted)}"
            )

    def _all(self, query: str) -> list[tuple[Any, ...]]:
        with self._opened() as file:
            return file.execute(query).fetchall()

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        if self._pid != os.getpid():
            # A connection must not be used after a fork, nor closed (sqlite.org/howtocorrupt.html, 2.6); keep it alive.
            _INHERITED.append(self._file)
            self._file, self._pid, self._guard = None, os.getpid(), threading.Lock()
        with self._guard:
            try:
                self._file = self._file or self._open()
                yield self._file
            except (sqlite3.Error, UnicodeError) as err:
                raise self._corrupt(f"cannot be read ({err})") from err

    def _open(self) -> sqlite3.Connection:
        self._check_size()
        # immutable=1: SQLite takes no locks and reads no journal, so a read-only file system works as well.
        file = sqlite3.connect(f"{self.path.as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)
        try:
            self._stores = self._read_stores(file)
        except BaseException:
            file.close()
            raise
        return file

    def _read_stores(self, file: sqlite3.Connection) -> dict[int, IndexedStore]:
        found = [file.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
        if found != [_APPLICATION_ID, _VERSION]:
            raise self._corrupt("cannot be read by this code", f"version {_VERSION}", f"version {found[1]}")
        (wanted,) = file.execute("SELECT value FROM summary WHERE name = 'crc32c'").fetchone() or (None,)
        if wanted != _named_crc32c(file):
            raise self._corrupt("the list of stores differs from what was written")
        rows = file.execute("SELECT number, location, label, manifest_sha256, n_rows FROM stores ORDER BY number")
        return {number: IndexedStore(*facts) for number, *facts in rows}

    def _check_size(self) -> None:
        """Compare the file's size with the size in its header, because SQLite reads a page only when it needs it."""
        try:
            with open_plain(self.path) as handle:
                header, size_bytes = handle.read(100), os.fstat(handle.fileno()).st_size
        except MissingResourceError as err:
            raise MissingResourceError(str(self.path), "there is no row index", remedy=_REMEDY) from err
        except OSError as err:
            problem = err.problem if isinstance(err, ResourceError) else f"cannot be read ({err.strerror})"
            raise self._corrupt(problem) from err
        if len(header) < 100 or not header.startswith(b"SQLite format 3\x00"):
            raise self._corrupt("is not a row index")
        # https://www.sqlite.org/fileformat2.html section 1.3: page size (1 means 65,536) and number of pages.
        page_bytes, pages = struct.unpack(">H", header[16:18])[0], struct.unpack(">I", header[28:32])[0]
        wanted = (65_536 if page_bytes == 1 else page_bytes) * pages
        if size_bytes != wanted:
            raise self._corrupt("size differs", f"{wanted} bytes", f"{size_bytes} bytes")

    def _corrupt(self, problem: str, expected: str | None = None, got: str | None = None) -> CorruptResourceError:
        return CorruptResourceError(str(self.path), problem, expected=expected, got=got, remedy=_REMEDY)
