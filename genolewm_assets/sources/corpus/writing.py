"""Write the files of corpus windows of one piece, and check them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.sources.corpus.packed import BasesSpool
from genolewm_assets.store.artefacts import CheckResult
from genolewm_assets.store.tables import memory_given_back, read_batches
from genolewm_assets.variants import ShardReport
from genolewm_assets.windows.bases import check_bases, write_bases, write_window_table
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

#: Rows that are read for the checks at a time.
_READ_ROWS = 512


def write_corpus_windows(
    records: Iterable[CorpusRecord], *, params: CorpusParams, placer: CorpusPlacer, out_dir: Path
) -> ShardReport:
    """Write the tables of windows and skipped records of one piece, and the bases; return counts, and rows by table."""
    ledger = CorpusLedger()
    out_dir.mkdir(parents=True, exist_ok=True)
    with memory_given_back(), tempfile.TemporaryDirectory(dir=out_dir) as name:
        bases, decided = BasesSpool(Path(name)), Path(name) / "decided.arrows"
        batches = decide_corpus_windows(records, params, placer, ledger, bases.append)
        skipped = write_window_table(out_dir / SKIPPED_NAME, CORPUS_SKIPPED, _keep_decided(batches, decided))
        answer = _no_answer if placer.aligner is None else placer.aligner.answer()
        finish = partial(
            finish_windows,
            kept=bases.read_back().read_all,
            answer=answer,
            params=params,
            placer=placer,
            ledger=ledger,
        )
        windows = write_window_table(out_dir / WINDOWS_NAME, CORPUS_WINDOWS, map(finish, _read_decided(decided)))
        write_bases(out_dir / WINDOWS_NAME)
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
        checks = check_corpus_windows(
            _tables(folder / WINDOWS_NAME),
            _tables(folder / SKIPPED_NAME),
            records,
            params=params,
            counts=counts,
            contigs=placer.contigs,
            bases=placer.bases,
        )
        return (*checks, check_bases(folder / WINDOWS_NAME))


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


def _tables(path: Path) -> Iterator[pa.Table]:
    """Yield the rows of a file, some hundred at a time, after an empty table with its schema."""
    yield pq.read_schema(path).empty_table()
    for batch in read_batches(path, _READ_ROWS):
        yield pa.Table.from_batches([batch])
