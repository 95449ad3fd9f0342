"""Windows of one Arrow batch, as arrays, and those that may share 21-mers with held-out sequence, in a mapped file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from genolewm_assets.holdouts import QUERIES

#: Bits of bases at which a 21-mer may be held out; see ``kmer_kernels.find_pairs``.
_HITS = pa.field("hits", pa.large_binary(), nullable=False)
#: Whether the window may share enough 21-mers of any kind to be reported.
_REPEATED = pa.field("repeated", pa.bool_(), nullable=False)
_SCHEMA = QUERIES.append(_HITS).append(_REPEATED)
#: Fewest windows that are written at once.
_ROWS = 256


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """Windows of a ``table`` of ``QUERIES``; ``data``: their ASCII bases; ``offsets``, (n_windows + 1,): of each."""

    table: pa.Table
    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, table: pa.Table) -> QueryBatch:
        """Return the windows of a table."""
        return cls(table, *as_arrays(table["bases"]))

    def __len__(self) -> int:
        """Return the number of windows."""
        return self.offsets.size - 1

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Bases of each window: int64, shape (n_windows,)."""
        return np.diff(self.offsets)


def as_arrays(column: pa.ChunkedArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of a column ``large_binary`` without nulls, and where each row begins, its end included."""
    joined = column.combine_chunks()
    _, offsets, data = joined.buffers()
    if not len(joined):
        return np.empty(0, dtype=np.uint8), np.zeros(1, dtype=np.int64)
    begins = np.frombuffer(offsets, dtype=np.int64)[joined.offset : joined.offset + len(joined) + 1]
    return np.frombuffer(data, dtype=np.uint8) if data is not None else np.empty(0, dtype=np.uint8), begins


def as_column(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> pa.LargeBinaryArray:
    """Return bytes as a column; the inverse of :func:`as_arrays`."""
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), offsets.size - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


class CandidateWriter:
    """Writes windows into a file; a context manager."""

    def __init__(self, path: Path) -> None:
        self._writer = pa.ipc.new_file(path, _SCHEMA)
        self._waiting: list[pa.Table] = []

    def add(
        self,
        queries: QueryBatch,
        chosen: NDArray[np.bool_],
        repeated: NDArray[np.bool_],
        hits: NDArray[np.uint8],
        firsts: NDArray[np.int64],
    ) -> None:
        """Add the chosen windows, each with its bits of bases and whether it is ``repeated``."""
        if chosen.any():
            columns = [*queries.table.columns, as_column(hits, firsts), pa.array(repeated)]
            self._waiting.append(pa.table(columns, schema=_SCHEMA).filter(pa.array(chosen)))
        if sum(table.num_rows for table in self._waiting) >= _ROWS:
            self._write()

    def _write(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting).combine_chunks())
            self._waiting = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._write()
        self._writer.close()


class Candidates:
    """Windows of a :class:`CandidateWriter`; ``sizes``: int64: bases; ``transcribed``, ``repeated``: bool; (n,)."""

    def __init__(self, path: Path) -> None:
        self._reader = pa.ipc.open_file(pa.memory_map(str(path)))
        sizes, transcribed, repeated, ends = [np.empty(0, np.int64)], [np.empty(0, bool)], [np.empty(0, bool)], [0]
        for number in range(self._reader.num_record_batches):
            batch = self._reader.get_batch(number)
            sizes.append(pc.binary_length(batch["bases"]).to_numpy().copy())
            transcribed.append(batch["transcribed"].to_numpy(zero_copy_only=False))
            repeated.append(batch["repeated"].to_numpy(zero_copy_only=False))
            ends.append(ends[-1] + batch.num_rows)
        self._ends = np.array(ends, np.int64)
        self.sizes: NDArray[np.int64] = np.concatenate(sizes)
        self.transcribed: NDArray[np.bool_] = np.concatenate(transcribed)
        self.repeated: NDArray[np.bool_] = np.concatenate(repeated)

    def __len__(self) -> int:
        """Return the number of windows."""
        return self.sizes.size

    def tables(self, rows: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], pa.Table]]:
        """Yield the windows with numbers ``rows``, which ascend, and those numbers, batch by batch."""
        bounds = np.searchsorted(rows, self._ends)
        for number in np.flatnonzero(np.diff(bounds)).tolist():
            ours = rows[bounds[number] : bounds[number + 1]]
            table = pa.table(self._reader.get_batch(number))
            whole = ours.size == table.num_rows
            yield ours, table if whole else table.take(pa.array(ours - self._ends[number]))

    def keys(self, rows: NDArray[np.int64], names: list[str]) -> pa.Table:
        """Return columns of the windows with numbers ``rows``, which ascend."""
        parts = [table.select(names) for _, table in self.tables(rows)]
        return pa.concat_tables([QUERIES.empty_table().select(names), *parts]).combine_chunks()

    def bases(self, rows: NDArray[np.int64]) -> Iterator[bytes]:
        """Yield the bases of the windows with numbers ``rows``, which ascend."""
        for _, table in self.tables(rows):
            yield from (each.as_py() for each in table["bases"])
