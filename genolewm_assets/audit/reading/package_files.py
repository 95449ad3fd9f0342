"""Files of a package by their documented names and columns (docs/data_model.md), and what a search asks of any."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from genolewm_assets.audit.reading.parquet_batches import (
    AGAIN,
    ALWAYS,
    OF_INTERVALS,
    REMEDY,
    TEXTS,
    TYPES,
    load_array,
    read_batches,
    rows_at_once,
)
from genolewm_assets.audit.reading.pieces import Piece
from genolewm_assets.errors import CorruptResourceError, MissingResourceError

Row: TypeAlias = dict[str, Any]

#: File that describes a package.
RECORD = "package.json"
TRAIN, VALIDATION, TEST = "train", "validation", "test"
EVALUATION = (VALIDATION, TEST)


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
    def unread_evaluation(self) -> tuple[str, ...]:
        """What of evaluation cannot be read, so that a search for it in training is not complete."""

    @property
    def left_out(self) -> dict[str, int]:
        """What lies in the folder and is not searched, because no trainer reads it: words, and how many."""

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
    def unread_evaluation(self) -> tuple[str, ...]:
        """Nothing: all splits are read."""
        return ()

    @property
    def left_out(self) -> dict[str, int]:
        """Nothing: trainers read all windows and alleles."""
        return {}

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

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces of the windows of training."""
        for entry in self.record.get("pieces", ()):
            yield Piece.open(self.directory, self.record, entry)

    def train_rows(self, columns: Sequence[str], rows: npt.NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
        """Yield windows of training by their sorted numbers, in the order of :meth:`windows`.

        Bases of pieces are read as trainers read them: a table stores those of thousands of windows together.
        """
        first, others = 0, [name for name in columns if name not in TEXTS]
        for piece in self.pieces():
            trains = np.flatnonzero(piece.trains)
            ours = rows[(first <= rows) & (rows < first + len(trains))]
            chosen = np.zeros(len(piece.trains), np.bool_)
            chosen[trains[ours - first]] = True
            for batch in piece.windows(others, chosen) if len(ours) else ():
                here, ours = ours[: batch.num_rows], ours[batch.num_rows :]
                if not len(here):
                    continue
                texts = piece.texts(*(self.train_array(name)[here] for name in ("first_byte", "sizes")))
                made = dict(zip((*batch.schema.names, *TEXTS), (*batch.columns, *texts), strict=True))
                yield pa.RecordBatch.from_arrays([made[name] for name in columns], names=list(columns))
            first += len(trains)
        for batch in self.beside_pieces(TRAIN, columns):
            ours = rows[(first <= rows) & (rows < first + batch.num_rows)] - first
            yield batch.take(pa.array(ours))
            first += batch.num_rows

    def train_array(self, name: str) -> Any:
        """Return a column of the windows of training as trainers read it, mapped."""
        return load_array(self.directory / f"arrays/{TRAIN}/windows/{name}.npy")

    def beside_pieces(self, split: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split's own files of windows."""
        yield from chain.from_iterable(self._files(split, columns))

    def _parts(self, split: str, columns: Sequence[str]) -> Iterator[Iterator[pa.RecordBatch]]:
        n_pieces = 0
        for piece in self.pieces() if split == TRAIN else ():
            n_pieces += 1
            yield piece.windows(columns)
        files = list(self._files(split, columns))
        if not (files or n_pieces):
            raise MissingResourceError(f"{self.directory}/data", f"holds no windows of {split}", remedy=REMEDY)
        yield from files

    def _files(self, split: str, columns: Sequence[str]) -> Iterator[Iterator[pa.RecordBatch]]:
        for path in sorted(self.directory.glob(f"data/{split}-*.parquet")):
            yield read_batches(path, columns)

    def variants(self, split: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split's alleles."""
        yield from read_batches(self.directory / f"variants/{split}.parquet", columns)

    def holdout(self, noun: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a holdout table."""
        yield from read_holdouts(self.holdouts, noun, columns)


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
