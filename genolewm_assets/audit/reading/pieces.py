"""Training windows that a package refers to, read from its folder ``pieces`` by the documented names of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from genolewm_assets.audit.reading.parquet_batches import AGAIN, read_batches
from genolewm_assets.errors import CorruptResourceError

#: Columns of windows of the corpus that have another name in their table.
_CORPUS = {"origin": "source", "contig": "placed_contig", "start": "placed_start", "end": "placed_end"}
_TRACKS = ("segmental_duplication", "excluded_region", "repeat")


def read_piece(directory: Path, record: dict[str, Any], piece: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the windows of a piece that train, with columns of the package's own tables of windows.

    Raises
    ------
    CorruptResourceError
        If ``trains.npy`` is not one bool a window, or a table cannot be read.
    """
    try:
        folder, of_reference = directory / "pieces" / piece["source"], piece["origin"] == "reference"
        key = next((ref["key"] for ref in record.get("caches", ()) if ref["source"] == piece["source"]), None)
        trains, at = np.load(folder / "trains.npy"), 0
    except (KeyError, TypeError, ValueError, OSError, EOFError) as err:
        raise CorruptResourceError(f"{directory}/pieces", f"a piece cannot be read ({err!r})", remedy=AGAIN) from err
    if not folder.resolve().is_relative_to(directory):
        raise CorruptResourceError(f"{directory}/package.json", "names a piece outside of the package", got=str(folder))
    wanted = {name: _source_of(name, of_reference=of_reference) for name in columns}
    names = sorted({name for found in wanted.values() for name in found} | {"start"})
    for batch in read_batches(folder / "windows.parquet", names, frozenset()):
        rows = np.flatnonzero(trains[at : at + batch.num_rows])
        picked = batch.take(pa.array(rows))
        made = _made(picked, rows + at, key, of_reference=of_reference)
        arrays = [made[name]() if name in made else picked[wanted[name][0]] for name in columns]
        yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
        at += batch.num_rows
    if trains.dtype != bool or trains.shape != (at,):
        raise CorruptResourceError(
            f"{folder}/trains.npy",
            "is not of its table",
            expected=f"{at:,} bools",
            got=f"{trains.dtype} {trains.shape}",
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
