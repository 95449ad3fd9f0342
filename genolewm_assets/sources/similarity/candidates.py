"""Windows that share 21-mers with some held-out sequence, kept in a file while the parts of that are compared."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from genolewm_assets.holdouts import QUERIES
from genolewm_assets.sources.similarity.query_batch import QueryBatch, as_column

#: Name of the file.
CANDIDATES = "candidates.arrow"
#: Bits of bases at which a 21-mer may be held out; see ``kmer_kernels.find_shared``.
_HITS = pa.field("hits", pa.large_binary(), nullable=False)
_SCHEMA = QUERIES.append(_HITS)
#: Fewest windows that are written at once.
_ROWS = 256


class CandidateWriter:
    """Writes windows into a file; a context manager."""

    def __init__(self, path: Path) -> None:
        self._writer = pa.ipc.new_file(path, _SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd"))
        self._waiting: list[pa.Table] = []

    def add(
        self, queries: QueryBatch, chosen: NDArray[np.bool_], hits: NDArray[np.uint8], firsts: NDArray[np.int64]
    ) -> None:
        """Add the chosen windows, each with its bits of bases."""
        if chosen.any():
            columns = [*queries.table.columns, as_column(hits, firsts)]
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


def read_candidates(path: Path) -> Iterator[pa.Table]:
    """Yield the windows that were written, in their order, with a column ``hits``."""
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        for number in range(reader.num_record_batches):
            yield pa.table(reader.get_batch(number))
