"""Files of a package by their documented names and columns (docs/data_model.md), and what a search asks of any."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.errors import CorruptResourceError, MissingResourceError

Row: TypeAlias = dict[str, Any]

#: File that describes a package.
RECORD = "package.json"
TRAIN, VALIDATION, TEST = "train", "validation", "test"
EVALUATION = (VALIDATION, TEST)

#: Rows of a batch with sequences, and of one without.
_SEQUENCES, _BATCH_ROWS = 256, 1 << 15
_REMEDY = "Name the folder of a package"
_AGAIN = "Copy the package again"
_INTEGERS = frozenset({"start", "end", "pos", "window_index", "clinvar_id", "start_bp", "end_bp"})
_WINDOW_TEXTS = frozenset({"contig", "strand", "origin", "record_id", "window_id", "sequence"})
_FLANKS = frozenset({"left_flank", "right_flank"})
_ALLELE_TEXTS = frozenset({"chrom", "ref", "alt", "source", "holdout", "role", "label"})
_TEXTS = _WINDOW_TEXTS | _FLANKS | _ALLELE_TEXTS
#: Types in which columns are handed out, whatever the file stores; others are as they are stored.
_TYPES = dict.fromkeys(_INTEGERS, pa.int64()) | dict.fromkeys(_TEXTS, pa.string()) | {"placement_exact": pa.bool_()}
#: Columns without a null, of every table; of a holdout table also its contig, start and end.
_ALWAYS = (
    frozenset({"origin", "window_id", "sequence", "chrom", "pos", "ref", "alt"}) | _FLANKS | {"start_bp", "end_bp"}
)
_OF_INTERVALS = frozenset({"contig", "start", "end"})


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
        """Yield the rows of a split's windows in file order."""
        paths = sorted(self.directory.glob(f"data/{split}-*.parquet"))
        if not paths:
            raise MissingResourceError(f"{self.directory}/data", f"holds no windows of {split}", remedy=_REMEDY)
        for path in paths:
            yield from read_batches(path, columns)

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
        raise MissingResourceError(str(package), f"cannot be read ({err})", remedy=_REMEDY) from err
    except (ValueError, RecursionError) as err:
        raise CorruptResourceError(str(path), f"is no JSON ({err})", remedy=_AGAIN) from err
    if not isinstance(record, dict):
        raise CorruptResourceError(str(path), "is no JSON object", remedy=_AGAIN)
    return OwnFiles(directory, (directory / "holdouts" if holdouts is None else holdouts).resolve(), record)


def read_holdouts(folder: Path, noun: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a holdout table of this platform; see :func:`read_batches`."""
    yield from read_batches(folder / f"{noun}.parquet", columns, _ALWAYS | _OF_INTERVALS)


def read_batches(path: Path, columns: Sequence[str], never_null: frozenset[str] = _ALWAYS) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file."""
    try:
        with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            for name in columns:
                _check_column(path, file.schema_arrow, name)
            for batch in file.iter_batches(_rows_at_once(columns), columns=list(columns), use_threads=False):
                _check_filled(path, batch, never_null.intersection(columns))
                given = [batch[name] for name in columns]
                typed = [one.cast(_TYPES.get(name, one.type)) for name, one in zip(columns, given, strict=True)]
                yield pa.RecordBatch.from_arrays(typed, names=list(columns))
    except FileNotFoundError as err:
        raise MissingResourceError(str(path), "is missing", remedy=_REMEDY) from err
    except CorruptResourceError:
        raise
    except (OSError, pa.ArrowException) as err:
        raise CorruptResourceError(str(path), f"cannot be read as Parquet ({err})", remedy=_AGAIN) from err


def batches_of(rows: Iterable[Row], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield rows as batches of some of their columns; null for what a row lacks."""
    left = iter(rows)
    while part := list(islice(left, _rows_at_once(columns))):
        arrays = [pa.array([row.get(name) for row in part], _TYPES.get(name)) for name in columns]
        yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Yield the rows of batches."""
    for batch in batches:
        yield from batch.to_pylist()


def table_of(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> pa.Table:
    """Return batches, which may be none, as one table."""
    parts = list(batches)
    if not parts:
        return pa.table([pa.array([], _TYPES.get(name, pa.null())) for name in columns], names=list(columns))
    return pa.Table.from_batches(parts).combine_chunks()


def _rows_at_once(columns: Sequence[str]) -> int:
    return _SEQUENCES if "sequence" in columns else _BATCH_ROWS


def _check_filled(path: Path, batch: pa.RecordBatch, names: frozenset[str]) -> None:
    empty = sorted(name for name in names if batch[name].null_count)
    if empty:
        raise CorruptResourceError(str(path), f"has a row without {empty[0]!r}", remedy=_AGAIN)


def _check_column(path: Path, schema: pa.Schema, name: str) -> None:
    if name not in schema.names:
        raise CorruptResourceError(str(path), f"lacks the column {name!r}", remedy="Audit a package of format 2")
    kind = schema.field(name).type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    wrong = (name in _INTEGERS and not pa.types.is_integer(kind)) or (
        name in _TEXTS and not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind))
    )
    if wrong:
        expected = "an integer" if name in _INTEGERS else "text"
        raise CorruptResourceError(
            str(path), f"has another kind of {name!r}", expected=expected, got=str(kind), remedy=_AGAIN
        )


def window_key(row: dict[str, Any]) -> str:
    """Return the text that names a window in findings: by its record, or by its place on the reference."""
    if row.get("record_id") is not None:
        return f"{row['origin']} {row['record_id']}:{row['window_index']}"
    return f"{row['origin']} {row['contig']}:{row['start']}"
