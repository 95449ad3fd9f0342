"""A folder of array stores, one per configuration, outside every root because its stores have no asset checks.

::

    <cache_dir>/<key>                      relative link to the published generation
    <cache_dir>/.gen/<key>.<digest12>/     array store, ``stamps.json``, and the manifest of every build
    <cache_dir>/work/<key>/                lock; resume.<digest>: the unfinished store of one layout and its sources
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self

import numpy.typing as npt

from genolewm_assets.errors import ConfigurationError, CorruptResourceError, MissingResourceError
from genolewm_assets.store.arrays.keys import CACHE_VERSION, cache_key_dir, compute_fingerprint, compute_key
from genolewm_assets.store.arrays.layout import INDEX, ArrayLayout, ArraySpec, is_complete
from genolewm_assets.store.arrays.reader import ArrayStoreReader
from genolewm_assets.store.arrays.stamps import RowStamp, SourceChangedError, changed_files, stamp_file, write_stamps
from genolewm_assets.store.arrays.writer import ArrayStoreWriter
from genolewm_assets.store.artefacts import (
    WORK,
    ArtefactId,
    BuildPlan,
    BuildReport,
    OpenBuild,
    Root,
    check_file_system,
    enclosing_root,
    open_build,
)
from genolewm_assets.store.files import GENERATIONS, JsonValue, normal_json, remove_tree


class ArrayCacheWriter:
    """Writer of the cache of one configuration; a context manager that holds the cache's lock.

    The files are stamped when the writer is opened. After a kill, a new writer continues after the last committed row,
    if no file has changed, was added or removed; otherwise it starts with no rows, because rows cannot be replaced. If
    the published cache is intact and made from these files, it is opened as finished: :meth:`resume_keys` returns its
    keys and only :meth:`finalize` may be called.

    Parameters
    ----------
    cache_dir
        Folder that holds the caches of all configurations; made if missing.
    config
        Every parameter that the rows depend on; its key names the cache.
    files
        Path of every source file, by root-relative name.
    strict
        Compare files by content; False: a file with the size and modification time of its stamp counts as unchanged.
    commit_rows, commit_ms, batch_rows, key_column, columns, sidecars
        As for :class:`ArrayStoreWriter`.

    Attributes
    ----------
    directory
        ``<cache_dir>/<key>``: link to the finished cache.
    stamps
        Stamps of the files when the writer was opened, by root-relative name.

    Raises
    ------
    ConfigurationError
        If a declaration is not allowed, or the folder is inside a root.
    InputError
        If a file cannot be read.
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
        files: Mapping[str, Path],
        strict: bool = False,
        commit_rows: int = 8_192,
        commit_ms: int | None = 1_000,
        batch_rows: int = 64,
        key_column: str = "key",
        columns: Mapping[str, str] | None = None,
        sidecars: Sequence[str] = (),
        lock_wait_s: float = 30.0,
    ) -> None:
        config, key = normal_json(config, str(cache_dir)), compute_key(config)
        self._root = Root(cache_dir, lock_wait_s)
        self.directory = cache_key_dir(self._root.path, key)
        if (root := enclosing_root(self._root.path)) is not None:
            raise ConfigurationError(
                str(self._root.path),
                f"is inside the root {root}, where every published directory has asset checks",
                remedy="Choose a folder outside the root, or publish the store as an artefact of the root",
            )
        self._files, self._strict = files, strict
        # Raises an error for invalid file names before any file is read.
        compute_fingerprint({}, dict.fromkeys(files, "0" * 64))
        named = tuple((columns or {}).items())
        layout = ArrayLayout(key, tuple(arrays), batch_rows, key_column, named, tuple(sidecars))
        self.stamps = {name: stamp_file(path) for name, path in files.items()}
        self._fingerprint = compute_fingerprint(config, self.stamps)
        self._store: ArrayStoreWriter | None = None
        self._held = ExitStack()
        plan = BuildPlan(
            artefact=ArtefactId("array_cache", key),
            location=key,
            code_version=str(CACHE_VERSION),
            recipe={"layout": layout.as_json(), "fingerprint": self._fingerprint},
            inputs=(),
            write=self._finish_store,
            resumable=True,
        )
        try:
            self._build: OpenBuild = self._held.enter_context(open_build(self._root, plan))
            with self._root.storage_errors(key):
                if not (self._root.path / GENERATIONS).exists():
                    check_file_system(self._root.path / WORK / key)
                if self._build.published is None:
                    open_store = partial(
                        ArrayStoreWriter,
                        self._build.work,
                        arrays,
                        key_config=config,
                        commit_rows=commit_rows,
                        commit_ms=commit_ms,
                        batch_rows=batch_rows,
                        key_column=key_column,
                        columns=columns,
                        sidecars=sidecars,
                    )
                    try:
                        self._store = open_store()
                    except (CorruptResourceError, MissingResourceError):
                        remove_tree(self._build.work)
                        self._store = open_store()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._store is not None and not is_complete(self._store.directory):
                self._store.commit()
        finally:
            self.close()

    @property
    def is_finished(self) -> bool:
        """Whether the published cache matches the files, so that only :meth:`finalize` may be called."""
        return self._build.published is not None

    def resume_keys(self) -> list[str]:
        """Return the keys of the rows that are stored already and must not be written again, in order."""
        if self._build.published is not None:
            return ArrayStoreReader(self._build.published.directory).keys()
        return self._writable().resume_keys()

    def check_stamps(self, stamps: Mapping[str, RowStamp]) -> None:
        """Check that files that were just read have the content that they had when the writer was opened.

        Raises
        ------
        ConfigurationError
            If a name is not in ``files``.
        SourceChangedError
            If the content of a file is another one.
        """
        for name, stamp in stamps.items():
            if name not in self.stamps:
                where = str(self.directory)
                raise ConfigurationError(where, "a file was not declared", got=repr(name), remedy="Pass files=")
            if stamp.sha256 != self.stamps[name].sha256:
                raise SourceChangedError(
                    name,
                    "was changed since the build began",
                    expected=f"sha256 {self.stamps[name].sha256}",
                    got=f"sha256 {stamp.sha256}",
                    remedy="Close the writer and build again",
                )

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
            As :meth:`check_stamps`.
        """
        self.check_stamps(stamps or {})
        self._writable().write(row, key=key, meta=meta, sidecars=sidecars)

    def commit(self) -> None:
        """Sync all rows written so far to disk, so that they survive a kill or a power cut."""
        self._writable().commit()

    def finalize(self) -> Path:
        """Finish the store, publish it, and close; may be called again, also after a kill.

        Raises
        ------
        SourceChangedError
            If a file has changed since the writer was opened. The unfinished store is removed.
        ResourceError
            If writing to disk fails; the published generation and committed rows are kept.
        """
        if self._build.published is None:
            with self._root.storage_errors(self.directory.name):
                self._check_sources()
                self._build.finish()
        self.close()
        assert self._build.published is not None, "finish() publishes"
        return self._build.published.directory

    def _check_sources(self) -> None:
        store = self._writable()
        if changed := list(changed_files(self._files, self.stamps, strict=self._strict)):
            store.close()
            remove_tree(store.directory)
            self.close()
            raise SourceChangedError(
                str(self.directory),
                f"files changed since the build began ({', '.join(map(repr, changed[:5]))}; {len(changed)} in all)",
                remedy="Build the cache again; the build starts with no rows, because rows cannot be replaced",
            )

    def _finish_store(self, work: Path) -> BuildReport:
        """Finish what was written into ``work``: the last step of the build."""
        store = self._writable()
        rows = store.n_rows
        write_stamps(work, self.stamps)
        store.finalize(self._fingerprint)
        return BuildReport({"rows": rows}, {INDEX: rows})

    def close(self) -> None:
        """Release the lock; rows after the last commit are lost."""
        if self._store is not None:
            self._store.close()
            self._store = None
        self._held.close()

    def _writable(self) -> ArrayStoreWriter:
        if self._store is None:
            state = "finished" if self._build.published else "closed"
            raise ConfigurationError(str(self.directory), f"the array cache is {state}", remedy="Open a new writer")
        return self._store
