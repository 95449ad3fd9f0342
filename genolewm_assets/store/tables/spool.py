"""Buffer rows by contig until the contig is written: in memory at first, on disk above a limit."""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pyarrow as pa

#: Rows of a contig that are combined into one batch.
_GATHER_ROWS = 32_768
#: Limit, over all contigs, of bytes that wait to be combined.
_GATHER_BYTES = 16 << 20
#: Limit, over all contigs, of bytes of combined batches in memory; later batches are written to disk.
_MEMORY_BYTES = 48 << 20


class BatchSpool:
    """Buffer of record batches, appended in any order of contigs and read per contig; a context manager.

    Rows that exceed the memory limit go to a temporary folder in ``folder``, which is removed on exit.

    Notes
    -----
    Memory: at most ``_GATHER_BYTES`` + ``_MEMORY_BYTES`` + one batch. A batch that is a slice keeps its whole parent
    in memory until it is combined with others.
    """

    def __init__(self, schema: pa.Schema, folder: Path) -> None:
        self.schema = schema
        self._gathering: dict[str, list[pa.RecordBatch]] = {}
        self._gathered_rows: Counter[str] = Counter()
        self._gathered_bytes = 0
        self._kept: dict[str, list[pa.RecordBatch]] = {}
        self._kept_bytes = 0
        self._files: dict[str, Path] = {}
        self._writers: dict[str, pa.RecordBatchStreamWriter] = {}
        self._parent = folder
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._made = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for writer in self._writers.values():
            # The files are discarded, so an error of a full disk on closing does not matter.
            with contextlib.suppress(OSError):
                writer.close()
        self._writers.clear()
        if self._folder is not None:
            self._folder.cleanup()

    def append(self, contig: str, batch: pa.RecordBatch) -> None:
        """Append rows to a contig; may write earlier rows to disk."""
        if not batch.num_rows:
            return
        self._gathering.setdefault(contig, []).append(batch)
        self._gathered_rows[contig] += batch.num_rows
        self._gathered_bytes += batch.nbytes
        if self._gathered_rows[contig] >= _GATHER_ROWS:
            self._put_aside(contig)
        elif self._gathered_bytes >= _GATHER_BYTES:
            for name in list(self._gathering):
                self._put_aside(name)

    def batches(self, contig: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a contig in the order of :meth:`append`, and remove them from the buffer."""
        if contig in self._gathering:
            self._put_aside(contig)
        kept = self._kept.pop(contig, [])
        kept.reverse()
        while kept:
            self._kept_bytes -= kept[-1].nbytes
            yield kept.pop()
        if contig in self._writers:
            self._writers.pop(contig).close()
            path = self._files.pop(contig)
            with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as stream:
                yield from stream
            path.unlink()

    def _put_aside(self, contig: str) -> None:
        """Combine the waiting rows of a contig; the batch goes to disk above the memory limit or after earlier ones."""
        waiting = self._gathering.pop(contig)
        del self._gathered_rows[contig]
        self._gathered_bytes -= sum(each.nbytes for each in waiting)
        batch = waiting[0] if len(waiting) == 1 else pa.concat_batches(waiting)
        if contig not in self._writers and self._kept_bytes + batch.nbytes <= _MEMORY_BYTES:
            self._kept.setdefault(contig, []).append(batch)
            self._kept_bytes += batch.nbytes
            return
        if contig not in self._writers:
            self._writers[contig] = self._open_writer(contig)
        self._writers[contig].write_batch(batch)

    def _open_writer(self, contig: str) -> pa.RecordBatchStreamWriter:
        if self._folder is None:
            self._parent.mkdir(parents=True, exist_ok=True)
            self._folder = tempfile.TemporaryDirectory(prefix=".spool-", dir=self._parent)
        # Files are numbered, because a contig name may be no valid file name (HLA-A*01:01).
        self._files[contig] = Path(self._folder.name) / f"{self._made}.arrows"
        self._made += 1
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        return pa.ipc.new_stream(str(self._files[contig]), self.schema, options=options)
