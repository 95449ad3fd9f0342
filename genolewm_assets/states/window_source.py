"""Windows to encode, read in batches in the order of their rows; of whole sources only lengths are in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import Bases
from genolewm_assets.store.tables import read_batches, read_rows, read_table

#: Windows per batch: 1.5 MB of bases.
_BATCH_ROWS = 128


@dataclass(frozen=True, slots=True)
class WindowSource:
    """The windows of a table, in row order.

    Attributes
    ----------
    lengths
        int64, shape (n_windows,): length in bases.
    read
        Yields the windows from the first on, in batches with the columns ``key`` and ``sequence``, both texts. Keys are
        unique.
    take
        Returns the bases of some rows, in the order given.
    """

    lengths: npt.NDArray[np.int64]
    read: Callable[[], Iterator[pa.RecordBatch]]
    take: Callable[[Sequence[int]], list[str]]


def windows_of_contig(path: Path, contig: str, bases: Bases) -> WindowSource:
    """Return the windows of a table of ``windows/index``, cut from their contig; keys are ``contig:start``.

    Parameters
    ----------
    bases
        The contig, upper-case ASCII; slices are taken in row order, and for ``take`` in the order of its rows.
    """
    table = read_table(path, columns=["start", "end"])
    starts, ends = (table[name].to_numpy() for name in ("start", "end"))

    def take(rows: Sequence[int]) -> list[str]:
        return [bases[starts[row] : ends[row]].decode("ascii") for row in rows]

    def read() -> Iterator[pa.RecordBatch]:
        for first in range(0, len(starts), _BATCH_ROWS):
            rows = range(first, min(first + _BATCH_ROWS, len(starts)))
            keys = [f"{contig}:{starts[row]}" for row in rows]
            yield pa.RecordBatch.from_pydict({"key": keys, "sequence": take(rows)})

    return WindowSource(ends - starts, read, take)


def windows_of_corpus(path: Path) -> WindowSource:
    """Return the windows of a table of ``corpus/windows``; keys are ``record_id:window_index``."""
    lengths = read_table(path, columns=["window_bp"])["window_bp"].to_numpy().astype(np.int64)

    def take(rows: Sequence[int]) -> list[str]:
        sequences: list[str] = read_rows(path, rows, ["sequence"])["sequence"].to_pylist()
        return sequences

    return WindowSource(lengths, partial(_read_corpus, path), take)


def _read_corpus(path: Path) -> Iterator[pa.RecordBatch]:
    for batch in read_batches(path, _BATCH_ROWS, ["record_id", "window_index", "sequence"]):
        record, index, sequence = batch.columns
        key = pc.binary_join_element_wise(record, index.cast(pa.string()), ":")
        yield pa.RecordBatch.from_arrays([key, sequence], ["key", "sequence"])
