"""A folder of array stores, one per configuration: ``<cache_dir>/<key>/`` as the cache specification has it.

::

    <cache_dir>/<key>                      relative link to the published generation
    <cache_dir>/.gen/<key>.<digest12>/     array store and ``stamps.json``; named by the digest of its ``crc.json``
    <cache_dir>/work/<key>/                lock; resume.<digest>: the unfinished store of one layout

Readers open the link and keep what they found; a rebuild puts another generation beside it and switches the link.
Such a folder needs no root around it and must not lie in one, whose manifests and checks it knows nothing of.
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
from genolewm_assets.store.arrays.reader import ArrayStoreReader, verify_array_store
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
    """Builds the cache of one configuration; a context manager that holds the cache's lock.

    Killed anywhere, it goes on after the last committed row when it is opened again, unless a file that a committed
    row was made from has changed: rows cannot be replaced, so the build starts from nothing then. Where the published
    cache is intact and made from the files as they are, another process having built it meanwhile, it is opened as
    finished: :meth:`resume_keys` names its rows, and only :meth:`finalize` may be called.

    Parameters
    ----------
    cache_dir
        The folder of all keys; made if missing.
    config
        Every parameter that the rows depend on; its key names the cache.
    arrays
        The arrays, each with the shape of one row.
    files
        Every source file, by root-relative name; None where rows are not made from files. A builder stamps each file
        when it reads it and hands the stamp to :meth:`write` or :meth:`add_stamps`.
    strict
        Trust no modification time: read files to find out whether they changed.
    commit_rows, commit_ms, batch_rows, key_column, columns, sidecars
        As of :class:`ArrayStoreWriter`.
    lock_wait_s
        Seconds to wait while another process builds the same cache.

    Attributes
    ----------
    key
        16 hex digits.
    directory
        Where readers find the cache when it is finished.

    Raises
    ------
    ConfigurationError
        If a declaration is not allowed, or the folder lies in a root.
    BusyError
        If another process builds the same cache all that time.
    VersionError, ResourceError
        If another version of this code began it; if the storage refuses, or something else stands where it belongs.
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
        # Refuses names that a fingerprint cannot hold before any row is made.
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
        # Without files only their maker knows what rows were made from.
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
        """Tell whether a generation is intact, of this layout, and made from the files as they are."""
        try:
            same = ArrayStoreReader(generation).layout == self._layout
            return same and self._is_current(generation) and not verify_array_store(generation)
        except ResourceError:
            return False

    def _is_current(self, directory: Path) -> bool:
        return self._files is None or validate_sources(directory, self.config, self._files, strict=self._strict)

    def _open_work(self, work: Path) -> bool:
        """Open the unfinished store; False if what its rows were made from has changed, or is not known."""
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
    def n_rows(self) -> int:
        """Rows given so far, since it was opened and before."""
        return self._writable().n_rows if self._published is None else len(ArrayStoreReader(self._published))

    def resume_keys(self) -> list[str]:
        """Return the keys of the rows that need not be written again, in order."""
        if self._published is not None:
            return ArrayStoreReader(self._published).keys()
        return self._writable().resume_keys()

    @property
    def stamps(self) -> dict[str, RowStamp]:
        """Stamps of the files that the rows so far were made from."""
        return self._writable().stamps if self._published is None else read_stamps(self._published)

    def add_stamps(self, stamps: Mapping[str, RowStamp]) -> None:
        """Keep the stamps of files that were read just now, whether or not a row comes of them.

        Raises
        ------
        ConfigurationError
            If a name is none of ``files``.
        SourceChangedError
            If a file had another content when an earlier row was made from it.
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
            As of :meth:`ArrayStoreWriter.write`.
        stamps
            Of every file that the row was made from.

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
        """Append rows; parameters and errors as of :meth:`write` and :meth:`ArrayStoreWriter.write_batch`."""
        if stamps:
            self.add_stamps(stamps)
        self._writable().write_batch(rows, keys=keys, metas=metas, sidecars=sidecars)

    def commit(self) -> None:
        """Make every row given so far survive a kill and a power cut."""
        self._writable().commit()

    def fingerprint(self) -> dict[str, JsonValue]:
        """Return the fingerprint of the configuration and ``files`` as they are now.

        A file that looks untouched since it was read for a row keeps its stamp, unless ``strict``; others are read.

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
        """Finish the store, publish it, and close; cut at any point, it is done again by opening and calling it again.

        Parameters
        ----------
        fingerprint
            Of the sources as they are now: :meth:`fingerprint`, or :func:`compute_fingerprint`.

        Returns
        -------
        Path
            The generation. Called again, the same one.

        Raises
        ------
        SourceChangedError
            If rows were made from other contents than the fingerprint states. The unfinished store is removed.
        ConfigurationError
            If ``fingerprint`` is not one, or the cache was finished with another.
        ResourceError
            If the storage refuses; what was published before stays, and so do committed rows.
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
                remedy="Build it again; it starts from nothing, because rows cannot be replaced",
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
        """Give up the lock; rows after the last commit are dropped."""
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
            f"lies in the root {root}, where every published directory needs a manifest",
            remedy="Choose a folder outside, or publish the store as an artefact of the root",
        )
