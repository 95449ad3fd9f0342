"""Windows that share 21-mers with some held-out sequence, kept in a file while the parts of that are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from genolewm_assets.holdouts import QUERIES, WindowKey
from genolewm_assets.sources.similarity.query_batch import QueryBatch, as_column

#: Bits of bases at which a 21-mer may be held out; see ``kmer_kernels.find_shared``.
_HITS = pa.field("hits", pa.large_binary(), nullable=False)
#: 21-mers outside repeats of a stretch that may be held out.
_UNIQUE = pa.field("unique", pa.int32(), nullable=False)
_SCHEMA = QUERIES.append(_HITS).append(_UNIQUE)
#: Fewest windows that are written at once.
_ROWS = 256


class CandidateWriter:
    """Writes windows into a file; a context manager."""

    def __init__(self, path: Path) -> None:
        self._writer = pa.ipc.new_file(path, _SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd"))
        self._waiting: list[pa.Table] = []

    def add(
        self,
        queries: QueryBatch,
        chosen: NDArray[np.bool_],
        unique: NDArray[np.int32],
        hits: NDArray[np.uint8],
        firsts: NDArray[np.int64],
    ) -> None:
        """Add the chosen windows, each with its bits of bases and its 21-mers outside repeats."""
        if chosen.any():
            columns = [*queries.table.columns, as_column(hits, firsts), pa.array(unique)]
            self._waiting.append(pa.table(columns, schema=_SCHEMA).filter(pa.array(chosen)))
        if sum(table.num_rows for table in self._waiting) >= _ROWS:
            self._write()

    def _write(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting).combine_chunks())
            self._waiting = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None:
            self._write()
        self._writer.close()


class Candidates:
    """Windows of a file that a :class:`CandidateWriter` has written.

    ``sizes``: int64: bases. ``transcribed``: bool. ``long_at``: int64: first byte in ``long`` of the bits of a window's
    31-mers, or -1 for a window that shares too little outside repeats to have some; shape (n_candidates,) each.
    """

    def __init__(self, path: Path, least_unique: Callable[[NDArray[np.int64]], NDArray[np.float64]]) -> None:
        self._path = path
        sizes, transcribed, unique = [np.empty(0, np.int64)], [np.empty(0, bool)], [np.empty(0, np.int32)]
        for table in self.tables():
            # Copies: a view of one column would keep its whole batch in memory.
            sizes.append(pc.binary_length(table["bases"]).to_numpy().copy())
            transcribed.append(table["transcribed"].to_numpy())
            unique.append(table["unique"].to_numpy().copy())
        self.sizes: NDArray[np.int64] = np.concatenate(sizes)
        self.transcribed: NDArray[np.bool_] = np.concatenate(transcribed)
        n_bytes = np.where(np.concatenate(unique) >= least_unique(self.sizes), (self.sizes + 7) // 8, 0)
        self.long_at = np.where(n_bytes > 0, np.cumsum(n_bytes) - n_bytes, -1)
        long = np.memmap(path.with_name("long"), np.uint8, "w+", shape=(1 + int(n_bytes.sum()),))
        self.long: NDArray[np.uint8] = np.asarray(long)

    def __len__(self) -> int:
        """Return the number of windows."""
        return self.sizes.size

    def tables(self) -> Iterator[pa.Table]:
        """Yield the windows in their order, with the columns ``hits`` and ``unique``."""
        with pa.OSFile(str(self._path)) as file, pa.ipc.open_file(file) as reader:
            for number in range(reader.num_record_batches):
                yield pa.table(reader.get_batch(number))

    def numbered(self) -> Iterator[tuple[slice, pa.Table]]:
        """Yield the windows with their numbers."""
        first = 0
        for table in self.tables():
            yield slice(first, first + table.num_rows), table
            first += table.num_rows

    def rows(self, chosen: NDArray[np.bool_]) -> Iterator[tuple[int, WindowKey, bytes]]:
        """Yield number, key and bases of the chosen windows."""
        for at, table in self.numbered():
            rows = table.filter(pa.array(chosen[at]))
            keys = map(WindowKey, *(rows[name].to_pylist() for name in WindowKey._fields))
            yield from zip(
                (at.start + np.flatnonzero(chosen[at])).tolist(), keys, rows["bases"].to_pylist(), strict=True
            )
