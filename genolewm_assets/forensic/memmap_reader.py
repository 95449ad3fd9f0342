"""Read profiles from the cache of the specification: small index in memory, rows from disk when asked for."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from genolewm_assets.forensic.memmap_writer import ALLELE, ANNOTATION, DATA, PANEL, SCALER
from genolewm_assets.store.arrays import ArrayStoreReader, IndexEntry
from genolewm_assets.store.files import JsonValue


class MemmapCacheReader:
    """A finished cache. Nothing is open before the first row is asked for; each process maps the arrays anew.

    Parameters
    ----------
    directory
        ``<cache_dir>/<key>``, resolved once, here: a rebuild beside it changes nothing for this reader.
    check
        Compare the checksum of each batch of rows before the first row of it is handed out in this process.
    load_in_memory
        Copy all arrays into memory now, once for all processes forked later.

    Raises
    ------
    MissingResourceError
        If there is no finished cache.
    CorruptResourceError
        If an array is shorter or longer than its rows, or what describes the cache was altered.
    MemoryLimitError
        A :class:`RuntimeError`: if the arrays would take more than half of the memory this process may use.
    """

    def __init__(self, directory: Path, *, check: bool = False, load_in_memory: bool = False) -> None:
        self._store = ArrayStoreReader(directory, check=check)
        self._parsed: dict[tuple[str, int], JsonValue] = {}
        if load_in_memory:
            self.load_in_memory()

    def __reduce__(self) -> tuple[object, ...]:
        # What was parsed and loaded stays behind: a spawned worker reads from disk.
        return partial(type(self), check=self._store.check), (self._store.directory,)

    def __len__(self) -> int:
        return len(self._store)

    @property
    def directory(self) -> Path:
        """The generation that is read."""
        return self._store.directory

    @property
    def size_bytes(self) -> int:
        """Bytes of all arrays: what :meth:`load_in_memory` takes."""
        return self._store.size_bytes

    def load_in_memory(self, *, max_fraction: float = 0.5) -> None:
        """Copy all arrays into memory; parameters and errors as of :meth:`ArrayStoreReader.load_in_memory`."""
        self._store.load_in_memory(max_fraction=max_fraction)

    def load_index(self) -> list[IndexEntry]:
        """Return path, annotation flag and side-car keys of every row, in order."""
        return self._store.load_index()

    def get_row(
        self, row: int, *, copy: bool = True
    ) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int8], npt.NDArray[np.float32]]:
        """Return one profile's arrays.

        Parameters
        ----------
        row
            0-based, as in the index.
        copy
            False for read-only views of the cache.

        Returns
        -------
        tuple of ndarray
            ``data`` (n_dyes, n_scanpoints) int16, ``annotation`` of that shape int8, ``scaler`` (n_scanpoints,)
            float32. The annotation is all zeros where the index says ``has_annotation`` False.

        Raises
        ------
        InputError
            If there is no such row.
        CorruptResourceError
            With ``check``: if the batch of the row differs from what was written.
        """
        arrays = self._store.get_row(row)
        data, annotation, scaler = (
            np.array(a) if copy else a for a in (arrays[DATA], arrays[ANNOTATION], arrays[SCALER])
        )
        return data, annotation, scaler

    def panel_json(self, key: int | None) -> str | None:
        """Return the JSON text of a panel; None for the key None."""
        return None if key is None else self._store.sidecar(PANEL, key)

    def allele_json(self, key: int | None) -> str | None:
        """Return the JSON text of called alleles; None for the key None."""
        return None if key is None else self._store.sidecar(ALLELE, key)

    def panel(self, key: int | None) -> JsonValue:
        """Return a panel, parsed once in each process; the same object every time, so do not change it."""
        return self._parse(PANEL, key)

    def alleles(self, key: int | None) -> JsonValue:
        """Return called alleles, as :meth:`panel`."""
        return self._parse(ALLELE, key)

    def _parse(self, name: str, key: int | None) -> JsonValue:
        if key is None:
            return None
        if (name, key) not in self._parsed:
            self._parsed[name, key] = cast("JsonValue", json.loads(self._store.sidecar(name, key)))
        return self._parsed[name, key]
