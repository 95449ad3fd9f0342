"""Windows of training in the pieces that a package refers to, with the columns of its own tables of windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from genolewm_assets.audit.reading.parquet_batches import AGAIN, load_array, read_batches
from genolewm_assets.audit.reading.reference import decode
from genolewm_assets.errors import CorruptResourceError

Bools = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]

#: Columns of windows of the corpus that have another name in their table.
_CORPUS = {"origin": "source", "contig": "placed_contig", "start": "placed_start", "end": "placed_end"}
_TRACKS = ("segmental_duplication", "excluded_region", "repeat")


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece in the folder of a package.

    ``digest``: that of its manifest. ``cache_key``: cache of its states, or None. ``trains``: bool, shape (rows,):
    which windows of its table train.
    """

    name: str
    folder: Path
    digest: str
    of_reference: bool
    cache_key: str | None
    trains: Bools

    @classmethod
    def open(cls, directory: Path, record: dict[str, Any], entry: Any) -> Self:
        """Open a piece that ``package.json`` names."""
        try:
            name, folder, digest = entry["source"], directory / "pieces" / entry["source"], entry["manifest_sha256"]
            key = next((ref["key"] for ref in record.get("caches", ()) if ref["source"] == name), None)
            trains = np.load(folder / "trains.npy")
            opened = cls(name, folder, digest, entry["origin"] == "reference", key, trains)
        except (KeyError, TypeError, ValueError, OSError, EOFError) as err:
            where = f"{directory}/pieces"
            raise CorruptResourceError(where, f"a piece cannot be read ({err!r})", remedy=AGAIN) from err
        if not folder.resolve().is_relative_to(directory):
            where = f"{directory}/package.json"
            raise CorruptResourceError(where, "names a piece outside of the package", got=str(folder))
        return opened

    def windows(self, columns: Sequence[str], chosen: Bools | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the windows that train, or those of its rows that are ``chosen`` too, with columns of the package."""
        wanted = {name: _source_of(name, of_reference=self.of_reference) for name in columns}
        names = sorted({name for found in wanted.values() for name in found} | {"start"})
        is_ours, rows = self.trains if chosen is None else self.trains & chosen, np.empty(0, np.int64)

        def choose(sizes: list[int]) -> list[int]:
            nonlocal rows
            self._check_rows(sum(sizes))
            parts = np.split(np.arange(len(is_ours)), np.cumsum(sizes)[:-1])
            groups = [at for at, part in enumerate(parts) if is_ours[part].any()]
            rows = np.concatenate([rows, *(parts[at] for at in groups)])
            return groups

        at = 0
        for batch in read_batches(self.folder / "windows.parquet", names, frozenset(), groups=choose):
            of_batch, at = rows[at : at + batch.num_rows], at + batch.num_rows
            here = np.flatnonzero(is_ours[of_batch])
            picked = batch.take(pa.array(here))
            made = _made(picked, of_batch[here], self.cache_key, of_reference=self.of_reference)
            arrays = [made[name]() if name in made else picked[wanted[name][0]] for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def bases(self, first_byte: Integers, n_bases: Integers) -> npt.NDArray[np.uint8]:
        """Return the packed bases of all windows, mapped, after a check that those of some are among them."""
        path, ends = self.folder / "bases.npy", first_byte + (n_bases + 3) // 4
        packed: npt.NDArray[np.uint8] = load_array(path)
        if ((first_byte < 0) | (n_bases < 0) | (ends > packed.size)).any():
            raise CorruptResourceError(str(path), "lacks bases of its windows", remedy=AGAIN)
        return packed

    def texts(self, first_byte: Integers, sizes: Integers) -> list[pa.Array]:
        """Return the texts ``TEXTS`` of windows by their first byte, (n,), and the bases of each text, (n, 3)."""
        n_bases = sizes.sum(axis=1, dtype=np.int64)
        packed, rows = self.bases(first_byte, n_bases), list[list[str]]()
        for first, n, ends in zip(first_byte.tolist(), n_bases.tolist(), np.cumsum(sizes, axis=1), strict=True):
            codes = (packed[first : first + (n + 3) // 4, None] >> np.arange(0, 8, 2, dtype=np.uint8)) & np.uint8(3)
            text, stops = decode(codes.ravel()[:n].astype(np.uint8)), ends.tolist()
            rows.append([text[start:end] for start, end in zip([0, *stops], stops, strict=False)])
        return [pa.array(texts, pa.string()) for texts in zip(*rows, strict=True)]

    def _check_rows(self, n: int) -> None:
        if self.trains.dtype != bool or self.trains.shape != (n,):
            raise CorruptResourceError(
                f"{self.folder}/trains.npy",
                "is not of its table",
                expected=f"{n:,} bools",
                got=f"{self.trains.dtype} {self.trains.shape}",
            )


def _source_of(name: str, *, of_reference: bool) -> tuple[str, ...]:
    """Return the columns of a piece's table that a column of the package is made from."""
    if name in {"holdout", "role", "frozen", "cache_key", "cache_row"}:
        return ()
    if of_reference:
        absent = {"origin", "placement_exact", "record_id", "window_index"}
        return () if name in absent else ("start", "end") if name == "window_bp" else (name,)
    return () if name in _TRACKS else ("start",) if name == "frame" else (_CORPUS.get(name, name),)


def _made(
    windows: pa.RecordBatch, rows: np.ndarray[Any, Any], key: str | None, *, of_reference: bool
) -> dict[str, Callable[[], pa.Array]]:
    n = windows.num_rows
    made: dict[str, Callable[[], pa.Array]] = {
        "holdout": lambda: pa.nulls(n, pa.string()),
        "role": lambda: pa.array(["train"] * n, pa.string()),
        "frozen": lambda: pa.array(np.ones(n, bool)),
        "cache_key": lambda: pa.array([key] * n, pa.string()),
        "cache_row": lambda: pa.nulls(n, pa.int64()) if key is None else pa.array(rows),
    }
    if of_reference:
        return made | {
            "origin": lambda: pa.array(["reference"] * n, pa.string()),
            "placement_exact": lambda: pa.array(np.ones(n, bool)),
            "record_id": lambda: pa.nulls(n, pa.string()),
            "window_index": lambda: pa.nulls(n, pa.int64()),
            "window_bp": lambda: pa.array((windows["end"].to_numpy() - windows["start"].to_numpy()).astype(np.int32)),
        }
    return made | {
        **{name: lambda: pa.nulls(n, pa.float32()) for name in _TRACKS},
        "frame": lambda: pa.array((windows["start"].to_numpy() % 6).astype(np.int8)),
    }
