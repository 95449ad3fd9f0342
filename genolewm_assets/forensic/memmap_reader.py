"""Read profiles from a cache: the index is held in memory, rows are read from disk on demand."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from genolewm_assets.forensic.profile import ALLELE, ANNOTATION, DATA, PANEL, SCALER
from genolewm_assets.store.arrays import ArrayStoreReader, IndexEntry
from genolewm_assets.store.files import JsonValue


class MemmapCacheReader:
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
        self._store = ArrayStoreReader(directory, check=check)
        self._parsed: dict[tuple[str, int], JsonValue] = {}
        if load_in_memory:
            self.load_in_memory()

    def __reduce__(self) -> tuple[object, ...]:
        # Parsed side-cars and loaded arrays are not pickled.
        return partial(type(self), check=self._store.check), (self._store.directory,)

    def __len__(self) -> int:
        return len(self._store)

    @property
    def directory(self) -> Path:
        """Directory of the generation that is read, links resolved."""
        return self._store.directory

    @property
    def size_bytes(self) -> int:
        """Size of all arrays in bytes, which is the memory that :meth:`load_in_memory` takes."""
        return self._store.size_bytes

    def load_in_memory(self, *, max_fraction: float = 0.5) -> None:
        """Copy all arrays into memory; parameters and errors are those of :meth:`ArrayStoreReader.load_in_memory`."""
        self._store.load_in_memory(max_fraction=max_fraction)

    def load_index(self) -> list[IndexEntry]:
        """Return one entry per row, in order: path, annotation flag, side-car keys, metadata."""
        return self._store.load_index()

    def get_row(
        self, row: int, *, copy: bool = True
    ) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int8], npt.NDArray[np.float32]]:
        """Return the arrays of one profile.

        Parameters
        ----------
        row
            0-based row number, as in the index.
        copy
            Return copies; False: read-only views of the cache.

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
        arrays = self._store.get_row(row)
        data, annotation, scaler = (
            np.array(a) if copy else a for a in (arrays[DATA], arrays[ANNOTATION], arrays[SCALER])
        )
        return data, annotation, scaler

    def panel_json(self, key: int | None) -> str | None:
        """Return the JSON text of a panel by its side-car key; None for the key None."""
        return None if key is None else self._store.sidecar(PANEL, key)

    def allele_json(self, key: int | None) -> str | None:
        """Return the JSON text of called alleles by their side-car key; None for the key None."""
        return None if key is None else self._store.sidecar(ALLELE, key)

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
            self._parsed[name, key] = cast("JsonValue", json.loads(self._store.sidecar(name, key)))
        return self._parsed[name, key]
