"""Write the files of corpus windows of one piece, and check them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.sources.corpus.packed import BasesSpool
from genolewm_assets.store.artefacts import CheckResult
from genolewm_assets.store.tables import TableSchema, memory_given_back, open_table_writer, read_batches
from genolewm_assets.variants import ShardReport
from genolewm_assets.windows.corpus import (
    CORPUS_SKIPPED,
    CORPUS_WINDOWS,
    DECIDED,
    CorpusLedger,
    CorpusParams,
    CorpusPlacer,
    CorpusRecord,
    DecidedBatch,
    Placement,
    check_corpus_windows,
    decide_corpus_windows,
    finish_windows,
)

WINDOWS_NAME = "windows.parquet"
SKIPPED_NAME = "skipped.parquet"

#: Rows of a row group: 100 MB of text in windows of 12 kb.
GROUP_ROWS = 8_192
#: Rows that are written, and read for the checks, at a time: a page of texts has about 1 MB.
_PAGE_ROWS, _READ_ROWS = 64, 512
#: Columns of few different values.
_REPETITIVE = ["source", "record_id", "placement_how", "placed_contig", "strand", "stated_contig", "taxonomy", "note"]


def write_corpus_windows(
    records: Iterable[CorpusRecord], *, params: CorpusParams, placer: CorpusPlacer, out_dir: Path
) -> ShardReport:
    """Write ``windows.parquet`` and ``skipped.parquet`` of one piece; return counts of its ledger, and rows by file."""
    ledger = CorpusLedger()
    out_dir.mkdir(parents=True, exist_ok=True)
    with memory_given_back(), tempfile.TemporaryDirectory(dir=out_dir) as name:
        bases, decided = BasesSpool(Path(name)), Path(name) / "decided.arrows"
        batches = decide_corpus_windows(records, params, placer, ledger, bases.append)
        skipped = _write_table(out_dir / SKIPPED_NAME, CORPUS_SKIPPED, _keep_decided(batches, decided))
        answer = _no_answer if placer.aligner is None else placer.aligner.answer()
        finish = partial(
            finish_windows,
            kept=bases.read_back().read_all,
            answer=answer,
            params=params,
            placer=placer,
            ledger=ledger,
        )
        windows = _write_table(out_dir / WINDOWS_NAME, CORPUS_WINDOWS, map(finish, _read_decided(decided)))
    return ShardReport(ledger.counts(), {WINDOWS_NAME: windows, SKIPPED_NAME: skipped})


def audit_corpus_windows(
    folder: Path,
    records: Iterable[CorpusRecord],
    *,
    params: CorpusParams,
    placer: CorpusPlacer,
    counts: Mapping[str, int],
) -> tuple[CheckResult, ...]:
    """Check the files of :func:`write_corpus_windows` against the records, read again, and the reference."""
    with memory_given_back():
        return check_corpus_windows(
            _tables(folder / WINDOWS_NAME),
            _tables(folder / SKIPPED_NAME),
            records,
            params=params,
            counts=counts,
            contigs=placer.contigs,
            bases=placer.bases,
        )


def _no_answer(_: int) -> Placement | None:
    return None


def _keep_decided(batches: Iterable[DecidedBatch], path: Path) -> Iterator[pa.Table]:
    """Write decided windows to a temporary file, and yield the skipped records."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(str(path), DECIDED, options=options) as out:
        for batch in batches:
            out.write_batch(batch.windows)
            yield batch.skipped


def _read_decided(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
        yield from stream


def _write_table(path: Path, schema: TableSchema, tables: Iterable[pa.Table]) -> int:
    """Write tables in row groups of :data:`GROUP_ROWS`, and return the number of rows; one group is in memory."""
    with _Groups(path, schema) as groups:
        for table in tables:
            groups.add(table)
    return groups.rows


class _Groups:
    """Parquet file whose rows wait until they fill a row group."""

    def __init__(self, path: Path, schema: TableSchema) -> None:
        dictionaries = [name for name in _REPETITIVE if name in schema.columns] or True
        self._writer = open_table_writer(path, schema, level=1, dictionaries=dictionaries, page_rows=_PAGE_ROWS)
        self._waiting = schema.empty()
        self.rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with closing(self._writer):
            if kind is None and self._waiting.num_rows:
                self._writer.write_table(self._waiting)

    def add(self, table: pa.Table) -> None:
        """Add rows; write a row group if there are enough."""
        self._waiting = pa.concat_tables([self._waiting, table])
        self.rows += table.num_rows
        while self._waiting.num_rows >= GROUP_ROWS:
            self._writer.write_table(self._waiting.slice(0, GROUP_ROWS), GROUP_ROWS)
            self._waiting = self._waiting.slice(GROUP_ROWS)


def _tables(path: Path) -> Iterator[pa.Table]:
    """Yield the rows of a file, some hundred at a time, after an empty table with its schema."""
    yield pq.read_schema(path).empty_table()
    for batch in read_batches(path, _READ_ROWS):
        yield pa.Table.from_batches([batch])
