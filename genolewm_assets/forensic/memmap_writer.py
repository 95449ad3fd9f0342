"""Write pre-processed profiles into the cache of the specification: ``<cache_dir>/<key>/``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import InputError
from genolewm_assets.forensic.profile import PreprocessedProfile
from genolewm_assets.store.arrays import ArrayCacheWriter, ArraySpec
from genolewm_assets.store.files import JsonValue

#: Names of the arrays, their files without ``.bin``.
DATA, ANNOTATION, SCALER = "data", "annotation", "scaler"
#: Names of the values that many profiles share; ``panels.json``, ``alleles.json``.
PANEL, ALLELE = "panel", "allele"
HAS_ANNOTATION = "has_annotation"


class MemmapCacheWriter:
    """Writes the cache of one configuration; a context manager that holds the cache's lock.

    Opened again after a kill it goes on after the last committed profile; where the published cache is made from the
    files as they are already, :meth:`resume_paths` names all of its profiles and only :meth:`finalize` is left to do.

    Parameters
    ----------
    cache_dir
        The folder of all keys.
    config
        Every parameter that the profiles depend on; its key names the cache.
    shape
        Dyes and scan points of every profile.
    files
        Every input, by root-relative name: samples, ladders, annotations, mapping tables, the panel.
    allow_missing_annotations
        Keep profiles without annotation, with zeros in place of it; False: drop them.
    strict
        Trust no modification time: read files to find out whether they changed.
    commit_rows, commit_ms
        Profiles are committed together after so many, or when the oldest has waited so many milliseconds.
    lock_wait_s
        Seconds to wait while another process builds the same cache.

    Attributes
    ----------
    directory
        ``<cache_dir>/<key>``: where readers find the cache when it is finished.
    dropped_paths
        Profiles that were dropped since the writer was opened, in order.

    Raises
    ------
    ConfigurationError, BusyError, ResourceError
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
        arrays = (
            ArraySpec(DATA, shape, "int16"),
            ArraySpec(ANNOTATION, shape, "int8"),
            ArraySpec(SCALER, shape[1:], "float32"),
        )
        self._cache = ArrayCacheWriter(
            cache_dir,
            config,
            arrays,
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

    def resume_paths(self) -> set[str]:
        """Return the paths of the profiles that need not be written again."""
        return set(self._cache.resume_keys())

    def write(self, image: PreprocessedProfile) -> bool:
        """Append one profile.

        Returns
        -------
        bool
            False if it was dropped for want of an annotation.

        Raises
        ------
        InputError
            If a shape or value does not fit, a stamp is missing, or the path was written before.
        SourceChangedError
            If a file that earlier profiles were made from has changed since.
        ConfigurationError
            If a stamp is of a file that was not declared.
        ResourceError
            If the storage refuses; committed profiles are kept.
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
            # What is annotated later is another content of a file that counts, and makes the cache outdated.
            self._cache.add_stamps(image.stamps)
            self.dropped_paths.append(image.path)
            return False
        shared = {PANEL: image.panel, ALLELE: image.alleles}
        self._cache.write(
            self._arrays(image),
            key=image.path,
            meta={**image.meta, HAS_ANNOTATION: image.annotation is not None},
            sidecars={name: _json_text(value, image.path) for name, value in shared.items() if value is not None},
            stamps=image.stamps,
        )
        return True

    def _arrays(self, image: PreprocessedProfile) -> dict[str, npt.ArrayLike]:
        placeholder = np.zeros(self._shape, np.int8)
        annotation = placeholder if image.annotation is None else image.annotation
        return {DATA: image.data, ANNOTATION: annotation, SCALER: _as_float32(image.scaler)}

    def commit(self) -> None:
        """Make every profile given so far survive a kill and a power cut."""
        self._cache.commit()

    def finalize(self) -> Path:
        """Stamp what was not read for a profile, publish the cache, and close; may be called again.

        Returns
        -------
        Path
            The generation that :attr:`directory` stands for now.

        Raises
        ------
        SourceChangedError
            If a file has changed since profiles were made from it; building again starts from nothing.
        InputError
            If a file cannot be read.
        ResourceError
            If the storage refuses; committed profiles are kept.
        """
        return self._cache.finalize(self._cache.fingerprint())

    def close(self) -> None:
        """Give up the lock; profiles after the last commit are dropped."""
        self._cache.close()


def _json_text(value: JsonValue, where: str) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as err:
        raise InputError(where, f"panel or alleles cannot be written as JSON ({err})") from err


def _as_float32(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Round floats to float32; what would overflow is left as it is, for the store to refuse."""
    array = np.asarray(values)
    with np.errstate(over="ignore"):
        rounded = array.astype(np.float32) if array.dtype.kind == "f" else array
    return array if (np.isinf(rounded) != np.isinf(array)).any() else rounded
