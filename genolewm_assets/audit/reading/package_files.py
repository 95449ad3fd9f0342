"""Files of a package by their documented names and columns (docs/data_model.md), and what a search asks of any."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from genolewm_assets.audit.reading.parquet_batches import (
    AGAIN,
    ALWAYS,
    OF_INTERVALS,
    REMEDY,
    TYPES,
    read_batches,
    rows_at_once,
)
from genolewm_assets.errors import CorruptResourceError, MissingResourceError

Row: TypeAlias = dict[str, Any]

#: File that describes a package.
RECORD = "package.json"
TRAIN, VALIDATION, TEST = "train", "validation", "test"
EVALUATION = (VALIDATION, TEST)


#: Columns of windows of the corpus that have another name in their table.
_CORPUS = {"origin": "source", "contig": "placed_contig", "start": "placed_start", "end": "placed_end"}
_TRACKS = ("segmental_duplication", "excluded_region", "repeat")


class PackageFiles(Protocol):
    """What searches read, whatever the layout.

    Batches of few rows with the columns of docs/data_model.md, null for what it lacks; texts are ``string`` and numbers
    ``int64``.
    """

    @property
    def directory(self) -> Path:
        """Folder of the package."""

    @property
    def record(self) -> dict[str, Any]:
        """What the package says of itself."""

    @property
    def release(self) -> str:
        """ClinVar release of the package."""

    @property
    def knowledge(self) -> str:
        """Release whose labels training uses: ``newest`` or ``T0``."""

    @property
    def without_stream(self) -> str:
        """Why the stream of tuples cannot be drawn; empty if it can."""

    @property
    def label_key(self) -> str:
        """What ``clinvar_id`` is: ``VariationID`` or ``AlleleID``."""

    def compared_holdouts(self) -> set[str]:
        """Return the holdouts whose windows must not train: those of intervals."""

    def windows(self, split: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split's windows in file order."""

    def train_pieces(self, columns: Sequence[str]) -> Iterator[Iterator[pa.RecordBatch]]:
        """Yield the windows of training, those of one piece or file after those of another."""

    def variants(self, split: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split's alleles."""

    def holdout(self, noun: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a holdout table: ``intervals``, ``alleles`` or ``corpus``."""


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """The files of a package of this platform, and the folder of the holdout tables that it is audited against."""

    directory: Path
    holdouts: Path
    record: dict[str, Any]

    @property
    def release(self) -> str:
        """ClinVar release of the package, an ISO date."""
        return str(self.record.get("release", ""))

    @property
    def knowledge(self) -> str:
        """Release whose labels training uses: ``newest`` or ``T0``."""
        return str(self.record.get("knowledge", "newest"))

    @property
    def without_stream(self) -> str:
        """Nothing: trainers can draw it."""
        return ""

    @property
    def label_key(self) -> str:
        """What ``clinvar_id`` is."""
        return "VariationID"

    def compared_holdouts(self) -> set[str]:
        """Return the holdouts of intervals; a holdout without intervals holds out alleles, and its windows train."""
        return {row["holdout"] for row in rows_of(self.holdout("intervals", ("holdout",)))}

    def windows(self, split: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split's windows: of its pieces, then of its files."""
        yield from chain.from_iterable(self._parts(split, columns))

    def train_pieces(self, columns: Sequence[str]) -> Iterator[Iterator[pa.RecordBatch]]:
        """Yield the windows of training, those of one piece or file after those of another."""
        return self._parts(TRAIN, columns)

    def _parts(self, split: str, columns: Sequence[str]) -> Iterator[Iterator[pa.RecordBatch]]:
        pieces = self.record.get("pieces", ()) if split == TRAIN else ()
        for piece in pieces:
            yield _read_piece(self.directory, self.record, piece, columns)
        paths = sorted(self.directory.glob(f"data/{split}-*.parquet"))
        if not (paths or pieces):
            raise MissingResourceError(f"{self.directory}/data", f"holds no windows of {split}", remedy=REMEDY)
        for path in paths:
            yield read_batches(path, columns)

    def variants(self, split: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split's alleles."""
        yield from read_batches(self.directory / f"variants/{split}.parquet", columns)

    def holdout(self, noun: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a holdout table."""
        yield from read_holdouts(self.holdouts, noun, columns)


def _read_piece(
    directory: Path, record: dict[str, Any], piece: Any, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the windows of a piece that train, with columns of the package's own tables of windows."""
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


def open_files(package: Path, holdouts: Path | None = None) -> OwnFiles:
    """Open a package by its folder, or a link to it; ``holdouts`` are the package's own by default.

    Raises
    ------
    MissingResourceError, CorruptResourceError
        If the folder or ``package.json`` is missing; if that is no JSON object.
    """
    directory = package.resolve()
    path = directory / RECORD
    try:
        record = json.loads(path.read_bytes())
    except OSError as err:
        raise MissingResourceError(str(package), f"cannot be read ({err})", remedy=REMEDY) from err
    except (ValueError, RecursionError) as err:
        raise CorruptResourceError(str(path), f"is no JSON ({err})", remedy=AGAIN) from err
    if not isinstance(record, dict):
        raise CorruptResourceError(str(path), "is no JSON object", remedy=AGAIN)
    return OwnFiles(directory, (directory / "holdouts" if holdouts is None else holdouts).resolve(), record)


def read_holdouts(folder: Path, noun: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a holdout table of this platform; see :func:`read_batches`."""
    yield from read_batches(folder / f"{noun}.parquet", columns, ALWAYS | OF_INTERVALS)


def batches_of(rows: Iterable[Row], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield rows as batches of some of their columns; null for what a row lacks."""
    left = iter(rows)
    while part := list(islice(left, rows_at_once(columns))):
        arrays = [pa.array([row.get(name) for row in part], TYPES.get(name)) for name in columns]
        yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Yield the rows of batches."""
    for batch in batches:
        yield from batch.to_pylist()


def table_of(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> pa.Table:
    """Return batches, which may be none, as one table."""
    parts = list(batches)
    if not parts:
        return pa.table([pa.array([], TYPES.get(name, pa.null())) for name in columns], names=list(columns))
    return pa.Table.from_batches(parts).combine_chunks()


def window_key(row: dict[str, Any]) -> str:
    """Return the text that names a window in findings: by its record, or by its place on the reference."""
    if row.get("record_id") is not None:
        return f"{row['origin']} {row['record_id']}:{row['window_index']}"
    return f"{row['origin']} {row['contig']}:{row['start']}"
