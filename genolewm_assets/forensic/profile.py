"""A pre-processed electropherogram: arrays for a model, the row that a store has of it, its reader and its writer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import InputError
from genolewm_assets.store.arrays import ArrayCacheWriter, ArraySpec, ArrayStoreReader, RowStamp
from genolewm_assets.store.files import JsonValue

#: Names of the arrays; each array's file is ``<name>.bin``.
DATA, ANNOTATION, SCALER = "data", "annotation", "scaler"
#: Names of the side-cars, values that many profiles share; their files are ``panels.json`` and ``alleles.json``.
PANEL, ALLELE = "panel", "allele"
#: Column of the index: False if the annotation array holds zeros because the profile has no annotation.
HAS_ANNOTATION = "has_annotation"


@dataclass(frozen=True, slots=True)
class PreprocessedProfile:
    """The pre-processed electropherogram of one sample; ``panel``, ``alleles`` and ``meta`` hold JSON values only.

    Attributes
    ----------
    path
        Name of the sample's file relative to the root of the data; unique among the profiles of a cache.
    data
        Fluorescence in relative fluorescence units, shape (n_dyes, n_scanpoints); whole numbers in the range of int16.
    scaler
        Size in base pairs at each scan point, shape (n_scanpoints,); rounded to float32.
    stamps
        Stamps of every file that the profile was made from, by root-relative name: ``path`` itself, ladder,
        annotation, mapping tables, panel. Each was taken when the file was read.
    annotation
        Mask of the scan points that belong to an allele, shape (n_dyes, n_scanpoints), whole numbers in the range of
        int8; None if the sample has no annotation.
    panel
        Panel adjusted to the sample's allelic ladder.
    """

    path: str
    data: npt.ArrayLike
    scaler: npt.ArrayLike
    stamps: Mapping[str, RowStamp]
    annotation: npt.ArrayLike | None = None
    panel: JsonValue = None
    alleles: JsonValue = None
    meta: Mapping[str, JsonValue] = field(default_factory=dict)


def profile_arrays(shape: tuple[int, int]) -> tuple[ArraySpec, ...]:
    """Return the arrays of a store of profiles with the shape (n_dyes, n_scanpoints)."""
    return (
        ArraySpec(DATA, shape, "int16"),
        ArraySpec(ANNOTATION, shape, "int8"),
        ArraySpec(SCALER, shape[1:], "float32"),
    )


def profile_row(image: PreprocessedProfile, shape: tuple[int, int]) -> dict[str, Any]:
    """Return a profile, with zeros for a missing annotation, as arguments of ``ArrayStoreWriter.write``.

    Raises
    ------
    InputError
        If panel or alleles have no JSON form.
    """
    annotation = np.zeros(shape, np.int8) if image.annotation is None else image.annotation
    shared = {PANEL: image.panel, ALLELE: image.alleles}
    return {
        "row": {DATA: image.data, ANNOTATION: annotation, SCALER: _as_float32(image.scaler)},
        "key": image.path,
        "meta": {**image.meta, HAS_ANNOTATION: image.annotation is not None},
        "sidecars": {name: _json_text(value, image.path) for name, value in shared.items() if value is not None},
    }


def _json_text(value: JsonValue, where: str) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as err:
        raise InputError(where, f"panel or alleles cannot be written as JSON ({err})") from err


def _as_float32(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Round floats to float32; if a value overflows, return the array unrounded, which the store then rejects."""
    array = np.asarray(values)
    with np.errstate(over="ignore"):
        rounded = array.astype(np.float32) if array.dtype.kind == "f" else array
    return array if (np.isinf(rounded) != np.isinf(array)).any() else rounded


class MemmapCacheReader(ArrayStoreReader):
    """Reader of a finished cache of profiles.

    The arrays are mapped when a process reads its first row; each process makes its own mapping. A pickled reader
    holds the directory and ``check`` only, so a spawned worker reads from disk.

    Parameters
    ----------
    directory
        ``<cache_dir>/<key>``. The link is resolved once, here; a later rebuild of the cache does not affect this
        reader.
    check
        Compare the checksum of a batch of rows before its first row is returned in this process.
    load_in_memory
        Copy all arrays into memory now; processes forked later share the copy.

    Raises
    ------
    MissingResourceError
        If the directory has no finished cache.
    CorruptResourceError
        If the size of an array differs from its rows, or a file that describes the cache was altered.
    MemoryLimitError
        A :class:`RuntimeError`: if the arrays would take more than half of the memory this process may use.
    """

    def __init__(self, directory: Path, *, check: bool = False, load_in_memory: bool = False) -> None:
        super().__init__(directory, check=check)
        self._parsed: dict[tuple[str, int], JsonValue] = {}
        if load_in_memory:
            self.load_in_memory()

    def __reduce__(self) -> tuple[object, ...]:
        # Parsed side-cars and loaded arrays are not pickled.
        return partial(type(self), check=self.check), (self.directory,)

    def get_row(  # type: ignore[override]
        self, row: int, *, copy: bool = True
    ) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int8], npt.NDArray[np.float32]]:
        """Return the arrays of one profile as copies, or with ``copy=False`` as read-only views of the cache.

        Returns
        -------
        data
            Fluorescence in relative fluorescence units: int16, shape (n_dyes, n_scanpoints).
        annotation
            Mask of scan points that belong to an allele: int8, shape (n_dyes, n_scanpoints); all zeros if the index
            entry has ``has_annotation`` False.
        scaler
            Size in base pairs at each scan point: float32, shape (n_scanpoints,).

        Raises
        ------
        InputError
            If the row does not exist.
        CorruptResourceError
            With ``check``: if the row's batch differs from its checksum.
        """
        arrays = super().get_row(row)
        data, annotation, scaler = (np.array(arrays[a]) if copy else arrays[a] for a in (DATA, ANNOTATION, SCALER))
        return data, annotation, scaler

    def panel_json(self, key: int | None) -> str | None:
        """Return the JSON text of a panel by its side-car key; None for the key None."""
        return None if key is None else self.sidecar(PANEL, key)

    def allele_json(self, key: int | None) -> str | None:
        """Return the JSON text of called alleles by their side-car key; None for the key None."""
        return None if key is None else self.sidecar(ALLELE, key)

    def panel(self, key: int | None) -> JsonValue:
        """Return a panel by its side-car key, parsed once per process; callers share the object and must not change it.

        Raises
        ------
        InputError
            If the key does not exist.
        """
        return self._parse(PANEL, key)

    def alleles(self, key: int | None) -> JsonValue:
        """Return called alleles by their side-car key; sharing and errors are those of :meth:`panel`."""
        return self._parse(ALLELE, key)

    def _parse(self, name: str, key: int | None) -> JsonValue:
        if key is None:
            return None
        if (name, key) not in self._parsed:
            self._parsed[name, key] = cast("JsonValue", json.loads(self.sidecar(name, key)))
        return self._parsed[name, key]


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
