"""Write pre-processed profiles into the cache of a configuration, ``<cache_dir>/<key>/``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from genolewm_assets.errors import InputError
from genolewm_assets.forensic.profile import (
    ALLELE,
    HAS_ANNOTATION,
    PANEL,
    PreprocessedProfile,
    profile_arrays,
    profile_row,
)
from genolewm_assets.store.arrays import ArrayCacheWriter
from genolewm_assets.store.files import JsonValue


class MemmapCacheWriter(ArrayCacheWriter):
    """Writer of the cache of one configuration; a context manager that holds the cache's lock.

    After a kill, a new writer continues after the last committed profile. If the published cache already matches the
    files, :meth:`resume_paths` returns all of its profiles and only :meth:`finalize` may be called.

    Parameters
    ----------
    cache_dir, config, strict, commit_rows, commit_ms, lock_wait_s
        As for :class:`ArrayCacheWriter`.
    shape
        (n_dyes, n_scanpoints) of every profile.
    files
        Path of every input, by root-relative name: samples, ladders, annotations, mapping tables, the panel.
    allow_missing_annotations
        Store profiles without annotation, with zeros as annotation; False: drop these profiles.

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
        self.dropped_paths: list[str] = []
        super().__init__(
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

    def resume_paths(self) -> set[str]:
        """Return the paths of the profiles that are stored already and must not be written again."""
        return set(self.resume_keys())

    def write(self, image: PreprocessedProfile) -> bool:  # type: ignore[override]
        """Append one profile, with a stamp for each of its files; return False if it was dropped without an annotation.

        Raises
        ------
        InputError
            If a shape or value does not fit, the sample's stamp is missing, or the path was written before.
        SourceChangedError, ConfigurationError
            If a file has changed since the writer was opened, or was not declared in ``files``.
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
            self.check_stamps(image.stamps)
            self.dropped_paths.append(image.path)
            return False
        super().write(**profile_row(image, self._shape), stamps=image.stamps)
        return True
