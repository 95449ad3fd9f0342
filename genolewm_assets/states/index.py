"""Index from window hashes to cached rows, ``<root>/embeddings.sqlite``, over all published caches of a root.

It is rebuilt as a whole whenever a cache is published; no manifest covers it. One hash can have several rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice

from genolewm_assets.errors import CorruptResourceError, InputError, MissingResourceError, ResourceError
from genolewm_assets.progress import NO_PROGRESS, ByteCount, Progress
from genolewm_assets.states.window_tables import WindowTable, find_window_tables, window_table_of
from genolewm_assets.store.arrays import HashSource, IndexedStore, RowIndex, publish_row_index
from genolewm_assets.store.artefacts import Finding, FindingKind, Manifest, Root, links, read_manifest
from genolewm_assets.store.files import (
    JsonValue,
    is_published_link,
    normal_json,
    reading,
    resolve_generation,
    split_generation_name,
)

#: Path of the index and of the folder whose caches it covers, relative to the root.
CACHE_INDEX, CACHES = "embeddings.sqlite", "embeddings"

_REMEDY = "Make it again: genolewm cache index"
# Most differences that a message lists.
_MAX_LISTED = 3


@dataclass(frozen=True, slots=True)
class CacheIndexReport:
    """Content of an index."""

    path: str
    caches: tuple[IndexedStore, ...]
    omitted: dict[str, str]
    hashes: int
    rows: int
    rebuilt: bool

    def as_dict(self) -> dict[str, JsonValue]:
        """Return the report as JSON values."""
        return normal_json(asdict(self), self.path)


@dataclass(slots=True)
class _Caches:
    """Published caches of a root by location: with window table if covered, with a reason if omitted."""

    covered: dict[str, tuple[IndexedStore, WindowTable]] = field(default_factory=dict)
    omitted: dict[str, str] = field(default_factory=dict)

    def differences(self, index: RowIndex) -> Iterator[str]:
        """Yield one line per difference between an index and these caches."""
        known, omitted = {store.location: store for store in index.stores}, index.omitted
        for location, (store, _) in self.covered.items():
            if location not in known:
                yield f"{location} ({store.label}) is not covered: {omitted.get(location, 'published since')}"
            elif known[location] != store:
                yield f"{location} ({store.label}) was replaced"
        yield from (f"{location} is covered but no longer exists" for location in known if location not in self.covered)
        for location, reason in self.omitted.items():
            if location not in known and location not in omitted:
                yield f"{location} is neither covered nor listed as omitted: {reason}"

    def check_tables(self, progress: Progress) -> None:
        """Hash every window table; omit the caches whose table is damaged or has another number of rows."""
        count = ByteCount(progress, sum(table.size_bytes for _, table in self.covered.values()))
        for location, (store, table) in list(self.covered.items()):
            try:
                table.check_bytes(count)
                table.check_rows(store.n_rows)
            except CorruptResourceError as err:
                del self.covered[location]
                self.omitted[location] = str(err)


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


def refresh_cache_index(
    root: Root, *, force: bool = False, wait_s: float | None = None, progress: Progress = NO_PROGRESS
) -> CacheIndexReport:
    """Rebuild the index if it differs from the caches that are published.

    Parameters
    ----------
    force
        Rebuild in any case.
    wait_s
        Seconds to wait while another process rebuilds the index; None: the root's setting.

    Raises
    ------
    MissingResourceError
        If the folder is not a root.
    BusyError
        If another process still holds the lock of the index after that time.
    ResourceError
        If the file system refuses; the former index stays.
    """
    root.check_is_root()
    with root.storage_errors(CACHE_INDEX), root.lock(CACHE_INDEX, wait_s=wait_s) as lease:
        root.sweep(CACHE_INDEX, lease)
        # Caches are listed under the lock: a process that publishes one later waits for the lock and rebuilds again.
        caches = _find_caches(root)
        with RowIndex(root.path_of(CACHE_INDEX)) as index:
            rebuilt = force or not _is_current(caches, index)
        if rebuilt:
            caches.check_tables(progress)
            sources = [HashSource(store, table.read_hashes) for store, table in caches.covered.values()]
            publish_row_index(root, CACHE_INDEX, lease, sources, caches.omitted)
        with RowIndex(root.path_of(CACHE_INDEX)) as index:
            return _report(index, rebuilt=rebuilt)


def open_cache_index(root: Root) -> RowIndex:
    """Open the index of a root after comparing it with the caches that are published.

    Raises
    ------
    MissingResourceError
        If there is no index.
    CorruptResourceError
        If the index is damaged or out of date; the message names the caches.
    """
    root.check_is_root()
    index = RowIndex(root.path_of(CACHE_INDEX))
    differences = _find_caches(root).differences(index)
    if first := list(islice(differences, _MAX_LISTED)):
        index.close()
        more = sum(1 for _ in differences)
        problem = f"is out of date: {'; '.join(first)}{f'; and {more} more' if more else ''}"
        raise CorruptResourceError(str(index.path), problem, remedy=_REMEDY)
    return index


def check_cache_index(root: Root) -> CacheIndexReport:
    """Run the comparison of :func:`open_cache_index` and read the whole index; raises the same errors."""
    with open_cache_index(root) as index:
        for problem in index.verify():
            raise CorruptResourceError(str(index.path), problem, remedy=_REMEDY)
        return _report(index, rebuilt=False)


def find_index_faults(root: Root) -> list[Finding]:
    """Return the faults of a root's index, in addition to the findings of :func:`verify_root`.

    A root without index and without caches has no faults.

    Raises
    ------
    ResourceError
        If the folder is not a root, or a folder in it cannot be read.
    """
    root.check_is_root()
    try:
        check_cache_index(root)
    except (MissingResourceError, CorruptResourceError) as err:
        missing = isinstance(err, MissingResourceError)
        if missing and not (found := _find_caches(root)).covered and not found.omitted:
            return []
        kind = FindingKind.MISSING if missing else FindingKind.CORRUPT
        return [Finding(kind, CACHE_INDEX, None, err.problem, err.expected, err.got)]
    return []


def _report(index: RowIndex, *, rebuilt: bool) -> CacheIndexReport:
    summary = index.summary
    return CacheIndexReport(
        str(index.path), tuple(index.stores), index.omitted, summary["hashes"], summary["rows"], rebuilt
    )


def _is_current(caches: _Caches, index: RowIndex) -> bool:
    try:
        return not any(caches.differences(index))
    except ResourceError:
        return False


def _find_caches(root: Root) -> _Caches:
    """Find all published caches; a cache that cannot be covered is listed as omitted, with the reason."""
    caches, tables = _Caches(), find_window_tables(root.path)
    with reading(root.path):
        found = [link for link in links(root.path / CACHES) if is_published_link(link)]
    for link in found:
        location = str(link.relative_to(root.path))
        try:
            directory = resolve_generation(link)
            manifest = read_manifest(directory)
            table = window_table_of(manifest, tables)
            caches.covered[location] = _indexed_store(location, directory.name, manifest), table
        except ResourceError as err:
            caches.omitted[location] = str(err)
    return caches


def _indexed_store(location: str, generation: str, manifest: Manifest) -> IndexedStore:
    parts = split_generation_name(generation)
    if parts is None or parts[1] != manifest.sha256[:12]:
        raise CorruptResourceError(location, "its manifest was altered", remedy=f"Rebuild {manifest.where}")
    if "windows" not in manifest.counts:
        raise CorruptResourceError(location, "its manifest has no count of windows", remedy=f"Rebuild {manifest.where}")
    return IndexedStore(location, manifest.where, manifest.sha256, manifest.counts["windows"])
