"""Rows of ``PACKAGE_WINDOWS`` from the rows of a published table of windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import TOKEN_BP, Split
from genolewm_assets.packages.files import GROUP_ROWS
from genolewm_assets.packages.schema import (
    PACKAGE_WINDOWS,
    PIECE_TRAINS,
    PIECE_WINDOWS,
    REFERENCE_ORIGIN,
    STRATA,
    CacheRef,
    PieceRef,
    piece_path,
)
from genolewm_assets.store.tables import read_batches
from genolewm_assets.variants import Bools, Int64s

#: Column of ``CORPUS_WINDOWS`` by column of ``PACKAGE_WINDOWS``, where the names differ.
_OF_CORPUS: Mapping[str, str] = {
    "origin": "source", "contig": "placed_contig", "start": "placed_start", "end": "placed_end", "frame": "start"
}  # fmt: skip
#: Columns of ``PACKAGE_WINDOWS`` that the table of reference windows, and that of the corpus, does not have.
_MADE_HERE = ("holdout", "role", "frozen", "cache_key", "cache_row")
_NOT_OF_REFERENCE = (*_MADE_HERE, "origin", "placement_exact", "record_id", "window_index", "window_bp")
_NOT_OF_CORPUS = (*_MADE_HERE, *STRATA)


@dataclass(frozen=True, slots=True)
class Membership:
    """Split of a row, and the holdout that it is evaluated for; ``holdout`` is None in train."""

    split: Split
    holdout: str | None = None

    def columns(self, n: int) -> dict[str, pa.Array]:
        """Return the columns holdout and role for ``n`` rows."""
        return {
            "holdout": pa.array([self.holdout] * n, pa.string()),
            "role": pa.array([str(self.split)] * n, pa.string()),
        }


def columns_read(columns: Sequence[str], origin: str) -> list[str]:
    """Return the columns of a table of windows that columns of ``PACKAGE_WINDOWS`` are made from; at least one."""
    if origin == REFERENCE_ORIGIN:
        found = [name for name in columns if name not in _NOT_OF_REFERENCE]
        found += ["start", "end"] if "window_bp" in columns else []
    else:
        found = [_OF_CORPUS.get(name, name) for name in columns if name not in _NOT_OF_CORPUS]
    return list(dict.fromkeys([*found, "start"]))


def package_rows(
    windows: pa.Table | pa.RecordBatch,
    rows: Int64s,
    origin: str,
    *,
    member: Membership,
    cache: CacheRef | None,
    frozen: Bools | None = None,
    columns: Sequence[str] = PACKAGE_WINDOWS.columns,
) -> pa.Table:
    """Make rows of ``PACKAGE_WINDOWS`` from windows of a contig (``WINDOWS``) or of the corpus (``CORPUS_WINDOWS``).

    Parameters
    ----------
    windows
        At least the columns that :func:`columns_read` names.
    rows
        Number of each window in its table: int64, shape (n_windows,).
    frozen
        bool, shape (n_windows,), the rows in the stream of windows; None: all.
    """
    n, of_reference = windows.num_rows, origin == REFERENCE_ORIGIN
    # Made where they are asked for only: a key of every row is large.
    key = None if cache is None else cache.key
    made: dict[str, Callable[[], Any]] = {
        "holdout": lambda: member.columns(n)["holdout"],
        "role": lambda: member.columns(n)["role"],
        "frozen": lambda: np.ones(n, bool) if frozen is None else frozen,
        "cache_key": lambda: pa.array([key] * n, pa.string()),
        "cache_row": lambda: pa.nulls(n, pa.int64()) if cache is None else rows,
    }
    if of_reference:
        made |= {
            "origin": lambda: [REFERENCE_ORIGIN] * n,
            "placement_exact": lambda: np.ones(n, bool),
            "record_id": lambda: pa.nulls(n, pa.string()),
            "window_index": lambda: pa.nulls(n, pa.int32()),
            "window_bp": lambda: windows["end"].to_numpy() - windows["start"].to_numpy(),
        }
    else:
        made |= {name: lambda: pa.nulls(n, pa.float32()) for name in STRATA}
        made["frame"] = lambda: windows["start"].to_numpy() % TOKEN_BP
    renamed = {} if of_reference else _OF_CORPUS
    found = {name: made[name]() if name in made else windows[renamed.get(name, name)] for name in columns}
    return pa.table(found).cast(pa.schema([PACKAGE_WINDOWS.arrow.field(name) for name in columns]))


def piece_rows(
    directory: Path, ref: PieceRef, cache: CacheRef | None, columns: Sequence[str]
) -> Iterator[tuple[pa.Table, Bools]]:
    """Yield all windows of a piece of a package as rows of train, at most 1,024 at a time, and which of them train.

    Raises
    ------
    CorruptResourceError
        If the piece has another number of windows than ``package.json`` states.
    """
    trains, first = read_trains(directory, ref), 0
    path = directory / piece_path(ref.source, PIECE_WINDOWS)
    for batch in read_batches(path, GROUP_ROWS, columns_read(columns, ref.origin)):
        rows = np.arange(first, first + batch.num_rows)
        member = Membership(Split.TRAIN)
        table = package_rows(batch, rows, ref.origin, member=member, cache=cache, columns=columns)
        yield table, trains[first : first + batch.num_rows]
        first += batch.num_rows
    if first != ref.rows:
        raise _differs(path, f"{ref.rows:,} rows", f"{first:,} rows")


def read_trains(directory: Path, ref: PieceRef) -> Bools:
    """Return which windows of a piece train: bool, shape (rows,)."""
    path = directory / piece_path(ref.source, PIECE_TRAINS)
    try:
        trains = np.load(path)
        found = f"{trains.dtype} of shape {trains.shape} with {np.count_nonzero(trains):,} rows that train"
    except (ValueError, OSError, EOFError) as err:
        found = f"no array ({err})"
    expected = f"bool of shape {(ref.rows,)} with {ref.training:,} rows that train"
    if found != expected:
        raise _differs(path, expected, found)
    return np.asarray(trains)


def _differs(path: Path, expected: str, got: str) -> CorruptResourceError:
    remedy = "Rebuild the package, or copy it again"
    return CorruptResourceError(
        str(path), "is not the piece that the package states", expected=expected, got=got, remedy=remedy
    )
