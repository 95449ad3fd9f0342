"""Write pre-processed profiles into the cache of a configuration, ``<cache_dir>/<key>/``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from genolewm_assets.errors import InputError
from genolewm_assets.forensic.profile import (
    ALLELE,
    HAS_ANNOTATION,
    PANEL,
    PreprocessedProfile,
    profile_arrays,
    profile_row,
)
from genolewm_assets.store.arrays import ArrayCacheWriter, RowStamp
from genolewm_assets.store.files import JsonValue


class MemmapCacheWriter:
    """Writer of the cache of one configuration; a context manager that holds the cache's lock.

    After a kill, a new writer continues after the last committed profile. If the published cache already matches the
    files, :meth:`resume_paths` returns all of its profiles and only :meth:`finalize` may be called.

    Parameters
    ----------
    cache_dir
        Folder that holds the caches of all configurations; made if missing.
    config
        Every parameter that the profiles depend on; its key names the cache.
    shape
        (n_dyes, n_scanpoints) of every profile.
    files
        Path of every input, by root-relative name: samples, ladders, annotations, mapping tables, the panel.
    allow_missing_annotations
        Store profiles without annotation, with zeros as annotation; False: drop these profiles.
    strict
        Compare files by content; False: a file with the size and modification time of its stamp counts as unchanged.
    commit_rows, commit_ms
        Profiles are committed in groups: after ``commit_rows`` profiles, or when the oldest uncommitted profile has
        waited ``commit_ms`` milliseconds.
    lock_wait_s
        Seconds to wait for the lock while another process builds the same cache.

    Attributes
    ----------
    directory
        ``<cache_dir>/<key>``: link to the finished cache.
    dropped_paths
        Paths of the profiles dropped since the writer was opened, in order.

    Raises
    ------
    ConfigurationError, BusyError, VersionError, ResourceError
        As :class:`ArrayCacheWriter`.
    """

    def __init__(
        self,
        cache_dir: Path,
        config: Mapping[str, JsonValue],
        *,
        shape: tuple[int, int],
        files: Mapping[str, Path],
        allow_missing_annotations: bool = False,
        strict: bool = False,
        commit_rows: int = 8_192,
        commit_ms: int | None = 1_000,
        lock_wait_s: float = 30.0,
    ) -> None:
        self._shape, self._allow_missing = shape, allow_missing_annotations
        self._cache = ArrayCacheWriter(
            cache_dir,
            config,
            profile_arrays(shape),
            files=files,
            strict=strict,
            commit_rows=commit_rows,
            commit_ms=commit_ms,
            key_column="path",
            columns={HAS_ANNOTATION: "bool"},
            sidecars=(PANEL, ALLELE),
            lock_wait_s=lock_wait_s,
        )
        self.directory = self._cache.directory
        self.dropped_paths: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cache.__exit__(kind, error, trace)

    @property
    def is_finished(self) -> bool:
        """Whether the published cache already matches the files, so that only :meth:`finalize` may be called."""
        return self._cache.is_finished

    def resume_paths(self) -> set[str]:
        """Return the paths of the profiles that are stored already and must not be written again."""
        return set(self._cache.resume_keys())

    @property
    def stamps(self) -> dict[str, RowStamp]:
        """Stamps of the files when the writer was opened, by root-relative name."""
        return self._cache.stamps

    def write(self, image: PreprocessedProfile) -> bool:
        """Append one profile.

        Parameters
        ----------
        image
            Profile with the shape given to the writer and a stamp for each of its files.

        Returns
        -------
        bool
            False if the profile was dropped because it has no annotation.

        Raises
        ------
        InputError
            If a shape or value does not fit, the sample's stamp is missing, or the path was written before.
        SourceChangedError
            If a file has changed since the writer was opened.
        ConfigurationError
            If a stamp belongs to a file that was not declared in ``files``.
        ResourceError
            If writing to disk fails; committed profiles are kept.
        """
        if image.path not in image.stamps:
            raise InputError(
                f"{self.directory} {image.path!r}",
                "the sample has no stamp",
                expected=repr(image.path),
                got=str(sorted(image.stamps)),
                remedy="Read files with read_stamped",
            )
        if image.annotation is None and not self._allow_missing:
            self._cache.check_stamps(image.stamps)
            self.dropped_paths.append(image.path)
            return False
        self._cache.write(**profile_row(image, self._shape), stamps=image.stamps)
        return True

    def commit(self) -> None:
        """Sync all profiles written so far to disk, so that they survive a kill or a power cut."""
        self._cache.commit()

    def finalize(self) -> Path:
        """Publish the cache, and close; may be called again.

        Returns
        -------
        Path
            The generation that :attr:`directory` links to now.

        Raises
        ------
        SourceChangedError
            If a file has changed since the writer was opened; the next build starts with no profiles.
        ResourceError
            If writing to disk fails; committed profiles are kept.
        """
        return self._cache.finalize()

    def close(self) -> None:
        """Release the lock; profiles after the last commit are lost."""
        self._cache.close()
