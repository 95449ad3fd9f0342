"""A folder of array stores, one per configuration: ``<cache_dir>/<key>/``.

::

    <cache_dir>/<key>                      relative link to the published generation
    <cache_dir>/.gen/<key>.<digest12>/     array store and ``stamps.json``; digest12: SHA-256 of its ``crc.json``
    <cache_dir>/work/<key>/                lock; resume.<digest>: the unfinished store of one layout

A reader resolves the link once and keeps reading that generation; a rebuild adds another generation and switches the
link. The folder must be outside every root, because its stores have no manifest and no asset checks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy.typing as npt

from genolewm_assets.errors import ConfigurationError, CorruptResourceError, MissingResourceError, ResourceError
from genolewm_assets.store.arrays.keys import (
    cache_key_dir,
    check_fingerprint,
    compute_fingerprint,
    compute_key,
    fingerprint_differences,
    read_fingerprint,
    validate_sources,
)
from genolewm_assets.store.arrays.layout import CHECKSUMS, ArrayLayout, ArraySpec, is_complete
from genolewm_assets.store.arrays.reader import ArrayStoreReader
from genolewm_assets.store.arrays.report import verify_array_store
from genolewm_assets.store.arrays.stamp_log import StampedStoreWriter
from genolewm_assets.store.arrays.stamps import RowStamp, SourceChangedError, changed_files, read_stamps, stamp_files
from genolewm_assets.store.artefacts import (
    WORK,
    Root,
    check_file_system,
    enclosing_root,
    locked_location,
    resumable_name,
)
from genolewm_assets.store.files import GENERATIONS, JsonValue, canonical_json, normal_json, remove_tree


class ArrayCacheWriter:
    """Writer of the cache of one configuration; a context manager that holds the cache's lock.

    After a kill, a new writer continues after the last committed row. If a file that a committed row was made from has
    changed, the build starts again with no rows, because rows cannot be replaced. If the published cache is intact and
    matches the files, for example because another process has built it, it is opened as finished:
    :meth:`resume_keys` returns its keys and only :meth:`finalize` may be called.

    Parameters
    ----------
    cache_dir
        Folder that holds the caches of all configurations; made if missing.
    config
        Every parameter that the rows depend on; its key names the cache.
    arrays
        Arrays, each with the shape of one row.
    files
        Path of every source file, by root-relative name; None if rows are not made from files. The caller stamps each
        file when it reads it and passes the stamp to :meth:`write` or :meth:`add_stamps`.
    strict
        Compare files by content; False: a file with the size and modification time of its stamp counts as unchanged.
    commit_rows, commit_ms, batch_rows, key_column, columns, sidecars
        As for :class:`ArrayStoreWriter`.
    lock_wait_s
        Seconds to wait for the lock while another process builds the same cache.

    Attributes
    ----------
    key
        Key of the configuration, 16 hex digits.
    directory
        ``<cache_dir>/<key>``: link to the finished cache.

    Raises
    ------
    ConfigurationError
        If a declaration is not allowed, or the folder is inside a root.
    BusyError
        If another process holds the lock for longer than ``lock_wait_s``.
    VersionError
        If another version of this code began the unfinished store.
    ResourceError
        If writing to disk fails, or a path of the cache is occupied by something else.
    """

    def __init__(
        self,
        cache_dir: Path,
        config: Mapping[str, JsonValue],
        arrays: Sequence[ArraySpec],
        *,
        files: Mapping[str, Path] | None = None,
        strict: bool = False,
        commit_rows: int = 8_192,
        commit_ms: int | None = 1_000,
        batch_rows: int = 64,
        key_column: str = "key",
        columns: Mapping[str, str] | None = None,
        sidecars: Sequence[str] = (),
        lock_wait_s: float = 30.0,
    ) -> None:
        self.config, self.key = normal_json(config, str(cache_dir)), compute_key(config)
        self._root = Root(cache_dir, lock_wait_s)
        self.directory = cache_key_dir(self._root.path, self.key)
        _check_outside_roots(self._root.path)
        self._files, self._strict = files, strict
        # Raises an error for invalid file names before any row is written.
        compute_fingerprint({}, dict.fromkeys(files or (), "0" * 64))
        self._commit_rows, self._commit_ms = commit_rows, commit_ms
        named = tuple((columns or {}).items())
        self._layout = ArrayLayout(self.key, tuple(arrays), batch_rows, key_column, named, tuple(sidecars))
        self._store: StampedStoreWriter | None = None
        self._published: Path | None = None
        self._latest: dict[str, RowStamp] = {}
        self._held = ExitStack()
        try:
            resumed = resumable_name(_digest12(canonical_json(self._layout.as_json(), self.key)))
            self._site = self._held.enter_context(locked_location(self._root, self.key, resumed=resumed))
            with self._root.storage_errors(self.key):
                self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        if not (self._root.path / GENERATIONS).exists():
            check_file_system(self._root.path / WORK / self.key)
        # Without files it is unknown whether a published cache is current; the caller decides.
        found = self._site.generations() if self._files is not None else iter(())
        self._published = next(filter(self._is_finished, found), None)
        if self._published is not None:
            self._site.adopt(self._published)
            return
        work = self._site.work_dir()
        if not self._open_work(work):
            self._discard(work)
            self._open_work(self._site.work_dir())

    def _is_finished(self, generation: Path) -> bool:
        """Tell whether a generation is intact, has this layout, and was made from the current content of the files."""
        try:
            same = ArrayStoreReader(generation).layout == self._layout
            return same and self._is_current(generation) and not verify_array_store(generation)
        except ResourceError:
            return False

    def _is_current(self, directory: Path) -> bool:
        return self._files is None or validate_sources(directory, self.config, self._files, strict=self._strict)

    def _open_work(self, work: Path) -> bool:
        """Open the unfinished store; return False if the sources of its rows have changed or are unknown."""
        try:
            self._store = StampedStoreWriter(
                work,
                self._layout.arrays,
                key_config=self.config,
                commit_rows=self._commit_rows,
                commit_ms=self._commit_ms,
                batch_rows=self._layout.batch_rows,
                key_column=self._layout.key_column,
                columns=dict(self._layout.columns),
                sidecars=self._layout.sidecars,
            )
            if is_complete(work) or self._files is None:
                return not is_complete(work) or self._is_current(work)
            self._store.open_stamps()
        except (CorruptResourceError, MissingResourceError):
            return False
        return not any(changed_files(self._files, self._store.stamps, strict=self._strict))

    def restart(self) -> None:
        """Drop all unfinished rows and stamps, because they no longer follow from the files; the lock is kept."""
        self._discard(self._writable().directory)
        self._open_work(self._site.work_dir())

    def _discard(self, work: Path) -> None:
        """Remove the unfinished store."""
        self._close_store()
        remove_tree(work)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._store is not None and not is_complete(self._store.directory):
                self._store.commit()
        finally:
            self.close()

    @property
    def is_finished(self) -> bool:
        """Whether the published cache matches the files, so that only :meth:`finalize` may be called."""
        return self._published is not None

    @property
    def n_rows(self) -> int:
        """Number of rows written, by this writer and by interrupted ones before it."""
        return self._writable().n_rows if self._published is None else len(ArrayStoreReader(self._published))

    def resume_keys(self) -> list[str]:
        """Return the keys of the rows that are stored already and must not be written again, in order."""
        if self._published is not None:
            return ArrayStoreReader(self._published).keys()
        return self._writable().resume_keys()

    @property
    def stamps(self) -> dict[str, RowStamp]:
        """Stamps of the files that the rows were made from, by root-relative name."""
        return self._writable().stamps if self._published is None else read_stamps(self._published)

    def add_stamps(self, stamps: Mapping[str, RowStamp]) -> None:
        """Record the stamps of files that were just read, whether or not a row is made from them.

        Parameters
        ----------
        stamps
            Stamps by root-relative name.

        Raises
        ------
        ConfigurationError
            If a name is not in ``files``, or the cache is finished or closed.
        SourceChangedError
            If the content of a file differs from its content when an earlier row was made from it.
        ResourceError
            If writing to disk fails.
        """
        if unknown := [name for name in stamps if name not in (self._files or ())]:
            raise ConfigurationError(
                str(self.directory), "stamps of files that were not declared", got=repr(unknown), remedy="Pass files="
            )
        self._writable().add_stamps(stamps)

    def write(
        self,
        row: Mapping[str, npt.ArrayLike],
        *,
        key: str,
        meta: Mapping[str, JsonValue] | None = None,
        sidecars: Mapping[str, str] | None = None,
        stamps: Mapping[str, RowStamp] | None = None,
    ) -> None:
        """Append one row.

        Parameters
        ----------
        row, key, meta, sidecars
            As for :meth:`ArrayStoreWriter.write`.
        stamps
            Stamps of all files that the row was made from, by root-relative name.

        Raises
        ------
        InputError, ResourceError
            As :meth:`ArrayStoreWriter.write_batch`.
        ConfigurationError, SourceChangedError
            As :meth:`add_stamps`.
        """
        if stamps:
            self.add_stamps(stamps)
        self._writable().write(row, key=key, meta=meta, sidecars=sidecars)

    def write_batch(
        self,
        rows: Mapping[str, npt.ArrayLike],
        *,
        keys: Sequence[str],
        metas: Sequence[Mapping[str, JsonValue]] | None = None,
        sidecars: Sequence[Mapping[str, str]] | None = None,
        stamps: Mapping[str, RowStamp] | None = None,
    ) -> None:
        """Append rows; parameters and errors are those of :meth:`write` and :meth:`ArrayStoreWriter.write_batch`."""
        if stamps:
            self.add_stamps(stamps)
        self._writable().write_batch(rows, keys=keys, metas=metas, sidecars=sidecars)

    def commit(self) -> None:
        """Sync all rows written so far to disk, so that they survive a kill or a power cut."""
        self._writable().commit()

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the fingerprint of the configuration and of the current content of ``files``.

        A file with the size and modification time of its stamp is not read again, unless ``strict`` is set.

        Raises
        ------
        ConfigurationError
            If no files were declared.
        InputError, SourceChangedError
            As :func:`stamp_files`.
        """
        if self._files is None:
            raise ConfigurationError(str(self.directory), "no files were declared", remedy="Use compute_fingerprint")
        self._latest = stamp_files(self._files, known=self.stamps, strict=self._strict)
        return compute_fingerprint(self.config, self._latest)

    def finalize(self, fingerprint: Mapping[str, JsonValue]) -> Path:
        """Finish the store, publish it, and close.

        After a kill at any point, open the cache again and call this method again.

        Parameters
        ----------
        fingerprint
            Fingerprint of the current sources, from :meth:`fingerprint` or :func:`compute_fingerprint`.

        Returns
        -------
        Path
            The published generation; a second call returns the same path.

        Raises
        ------
        SourceChangedError
            If rows were made from other contents than the fingerprint states. The unfinished store is removed.
        ConfigurationError
            If ``fingerprint`` is malformed, or the cache was finished with another fingerprint.
        ResourceError
            If writing to disk fails; the published generation and committed rows are kept.
        """
        check_fingerprint(fingerprint, str(self.directory))
        if self._published is None:
            with self._root.storage_errors(self.key):
                self._check_sources(fingerprint)
                self._published = self._publish(fingerprint)
        elif differences := fingerprint_differences(read_fingerprint(self._published), fingerprint):
            raise ConfigurationError(str(self.directory), f"was finished from other sources ({'; '.join(differences)})")
        self.close()
        return self._published

    def _check_sources(self, fingerprint: Mapping[str, JsonValue]) -> None:
        directory, stated = self._writable().directory, fingerprint["sources"]
        now = stated if isinstance(stated, Mapping) else {}
        changed = [f"{name!r} changed" for name, stamp in self.stamps.items() if now.get(name) != stamp.sha256]
        if is_complete(directory):
            changed = fingerprint_differences(read_fingerprint(directory), fingerprint)
        if changed:
            self._discard(directory)
            self.close()
            raise SourceChangedError(
                str(self.directory),
                f"sources changed since rows were made from them ({'; '.join(changed[:5])}; {len(changed)} in all)",
                remedy="Build the cache again; the build starts with no rows, because rows cannot be replaced",
            )

    def _publish(self, fingerprint: Mapping[str, JsonValue]) -> Path:
        store = self._writable()
        work = store.directory
        if self._latest and not is_complete(work):
            store.add_stamps(self._latest)
        store.finalize(fingerprint)
        self._store = None
        return self._site.publish(work, _digest12((work / CHECKSUMS).read_bytes()))

    def close(self) -> None:
        """Release the lock; rows after the last commit are lost."""
        self._close_store()
        self._held.close()

    def _close_store(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def _writable(self) -> StampedStoreWriter:
        if self._store is None:
            state = "closed" if self._published is None else "finished"
            raise ConfigurationError(str(self.directory), f"the array cache is {state}", remedy="Open a new writer")
        return self._store


def _digest12(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def _check_outside_roots(cache_dir: Path) -> None:
    if (root := enclosing_root(cache_dir)) is not None:
        raise ConfigurationError(
            str(cache_dir),
            f"is inside the root {root}, where every published directory needs a manifest",
            remedy="Choose a folder outside the root, or publish the store as an artefact of the root",
        )
