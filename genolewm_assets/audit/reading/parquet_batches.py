"""Read Parquet files of a package, or of a stranger, batch by batch, and check what is read of each column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.errors import CorruptResourceError, MissingResourceError

REMEDY = "Name the folder of a package"
#: Rows of a batch with sequences, and of one without.
_SEQUENCES, _BATCH_ROWS = 256, 1 << 15
AGAIN = "Copy the package again"
_INTEGERS = frozenset({"start", "end", "pos", "window_index", "clinvar_id", "start_bp", "end_bp"})
#: Columns with the bases of a window, in the order of its strand.
TEXTS = ("left_flank", "sequence", "right_flank")
_WINDOW_TEXTS = frozenset({"contig", "strand", "origin", "record_id", "window_id"})
_ALLELE_TEXTS = frozenset({"chrom", "ref", "alt", "source", "holdout", "role", "label"})
_TEXTS = _WINDOW_TEXTS | _ALLELE_TEXTS | set(TEXTS)
#: Types in which columns are handed out, whatever the file stores; others are as they are stored.
TYPES = dict.fromkeys(_INTEGERS, pa.int64()) | dict.fromkeys(_TEXTS, pa.string()) | {"placement_exact": pa.bool_()}
#: Columns without a null, of every table; of a holdout table also its contig, start and end.
ALWAYS = frozenset({"origin", "window_id", "chrom", "pos", "ref", "alt", "start_bp", "end_bp", *TEXTS})
OF_INTERVALS = frozenset({"contig", "start", "end"})


def read_batches(
    path: Path,
    columns: Sequence[str],
    never_null: frozenset[str] = ALWAYS,
    *,
    groups: Callable[[list[int]], list[int]] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file; ``groups`` chooses row groups by their numbers of rows, None: all."""
    try:
        with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
            for name in columns:
                _check_column(path, file.schema_arrow, name)
            of_groups = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
            chosen = range(len(of_groups)) if groups is None else groups(of_groups)
            given = {"columns": list(columns), "row_groups": list(chosen), "use_threads": False}
            for batch in file.iter_batches(rows_at_once(columns), **given):
                _check_filled(path, batch, never_null.intersection(columns))
                typed = [batch[name].cast(TYPES.get(name, batch[name].type)) for name in columns]
                yield pa.RecordBatch.from_arrays(typed, names=list(columns))
    except FileNotFoundError as err:
        raise MissingResourceError(str(path), "is missing", remedy=REMEDY) from err
    except CorruptResourceError:
        raise
    except (OSError, pa.ArrowException) as err:
        raise CorruptResourceError(str(path), f"cannot be read as Parquet ({err})", remedy=AGAIN) from err


def read_metadata(path: Path) -> dict[bytes, bytes]:
    """Return the metadata of a Parquet file."""
    try:
        return pq.read_schema(path).metadata or {}
    except FileNotFoundError as err:
        raise MissingResourceError(str(path), "is missing", remedy=REMEDY) from err
    except (OSError, pa.ArrowException) as err:
        raise CorruptResourceError(str(path), f"cannot be read as Parquet ({err})", remedy=AGAIN) from err


def load_array(path: Path) -> Any:
    """Return an array of a package, mapped."""
    try:
        return np.load(path, mmap_mode="r")
    except (OSError, ValueError) as err:
        raise CorruptResourceError(str(path), f"cannot be read ({err})", remedy=AGAIN) from err


def rows_at_once(columns: Sequence[str]) -> int:
    """Return how many rows of some columns a batch has."""
    return _SEQUENCES if "sequence" in columns else _BATCH_ROWS


def _check_filled(path: Path, batch: pa.RecordBatch, names: frozenset[str]) -> None:
    empty = sorted(name for name in names if batch[name].null_count)
    if empty:
        raise CorruptResourceError(str(path), f"has a row without {empty[0]!r}", remedy=AGAIN)


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
            str(path), f"has another kind of {name!r}", expected=expected, got=str(kind), remedy=AGAIN
        )
