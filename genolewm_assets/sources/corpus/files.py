"""Read the Parquet files of the pretraining corpus record by record, and write and check the files of corpus windows.

Not here: the meaning of a row (:mod:`~genolewm_assets.sources.corpus.layouts`).
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.errors import InputError
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.corpus.faults import FaultTally
from genolewm_assets.sources.corpus.layouts import find_layout
from genolewm_assets.sources.corpus.parts import BatchAligner
from genolewm_assets.sources.files import fetch_error
from genolewm_assets.store.artefacts import CheckResult
from genolewm_assets.store.tables import open_table_writer
from genolewm_assets.variants import ShardReport
from genolewm_assets.windows.corpus import (
    CORPUS_SKIPPED,
    CORPUS_WINDOWS,
    CorpusBatch,
    CorpusLedger,
    CorpusParams,
    CorpusPlacer,
    CorpusRecord,
    CorpusSource,
    WindowAligner,
    build_corpus_windows,
    check_corpus_windows,
)

WINDOWS_NAME = "windows.parquet"
SKIPPED_NAME = "skipped.parquet"

#: Rows read from a corpus file at a time.
_READ_ROWS = 64
#: Bytes read from a column at a time, instead of a whole row group.
_BUFFER_BYTES = 1 << 20
_WILDCARD = re.compile(r"[*?\[]")


def list_corpus_files(url: str) -> tuple[str, ...]:
    """Return the Parquet files of a path or URL, sorted.

    Parameters
    ----------
    url
        Path, or URL of any fsspec protocol, of a file, of a folder (stands for its ``*.parquet``), or a pattern with
        ``*``, ``?`` or ``[``.

    Raises
    ------
    InputError
        If there is no such file.
    FetchError
        If the path or URL cannot be read.
    """
    if url.startswith(("http://", "https://")) and url.endswith(".parquet") and not _WILDCARD.search(url):
        return (url,)
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
        if filesystem.isdir(path):
            # Not by a pattern: the folder's own path may hold a `[`.
            found = sorted(file for file in filesystem.ls(path, detail=False) if file.endswith(".parquet"))
        else:
            found = sorted(filesystem.glob(path)) if _WILDCARD.search(path) else [path] * filesystem.exists(path)
    except Exception as error:
        raise fetch_error(url, error) from error
    if not found:
        raise InputError(
            url,
            "no corpus file at this path",
            expected="a Parquet file, a folder of them or a pattern",
            got="nothing",
            remedy="Correct the catalogue's corpus section, or copy the files to this path",
        )
    local = "://" not in url
    return tuple(file if local else filesystem.unstrip_protocol(file) for file in found)


def look_at_corpus_file(path: Path) -> list[InputError]:
    """Return what is wrong with the columns of a Parquet file, by its footer; raises if it has none or no layout."""
    with _open(path) as file:
        layout = find_layout(file.schema_arrow, where=str(path))
        return list(layout.faults(file.schema_arrow, where=str(path)))


def read_records(
    paths: Sequence[Path], source: CorpusSource, *, max_faulty_fraction: float = 1, progress: Progress = NO_PROGRESS
) -> Iterator[CorpusRecord]:
    """Read the records of one source, file by file and in each file's order.

    ``max_faulty_fraction``: largest share of the rows of all files, 0 to 1, that may be at fault. Records have
    0-based half-open coordinates and upper-case sequences with T for U, other symbols unchanged; that of a row at fault
    has its ``fault``.
    """
    tally = FaultTally(sum(map(_count_rows, paths)), max_faulty_fraction)
    done = 0
    for path in paths:
        with _open(path) as file:
            layout, before = find_layout(file.schema_arrow, where=str(path)), done
            for batch in _batches(file, layout.columns(file.schema_arrow), path):
                for row, record in enumerate(layout.records(batch, source), done - before):
                    if record.fault is not None:
                        tally.add(record.fault, path, row)
                    yield record
                done += batch.num_rows
                tally.check(path, done)
                progress.advance(done, tally.total, "records")


def write_corpus_windows(
    paths: Sequence[Path],
    *,
    source: CorpusSource,
    params: CorpusParams,
    placer: CorpusPlacer,
    out_dir: Path,
    progress: Progress = NO_PROGRESS,
) -> ShardReport:
    """Write ``windows.parquet`` and ``skipped.parquet`` of one source into ``out_dir``.

    Returns
    -------
    ShardReport
        Counts of :class:`~genolewm_assets.windows.corpus.CorpusLedger`, and rows by file name.

    Raises
    ------
    InputError
        As :func:`read_records`.
    """
    ledger = CorpusLedger()
    out_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out_dir) as folder:
        read = partial(read_records, paths, source, max_faulty_fraction=params.max_faulty_fraction)
        placer = _prepare(placer, read, params, Path(folder))
        batches = build_corpus_windows(read(progress=progress), params, placer, ledger)
        rows = _write_batches(batches, out_dir)
    return ShardReport(ledger.counts(), rows)


def audit_corpus_windows(
    folder: Path,
    paths: Sequence[Path],
    *,
    source: CorpusSource,
    params: CorpusParams,
    placer: CorpusPlacer,
    counts: Mapping[str, int],
    progress: Progress = NO_PROGRESS,
) -> tuple[CheckResult, ...]:
    """Check the files of :func:`write_corpus_windows` against the corpus, read again, and against the reference."""
    return check_corpus_windows(
        _tables(folder / WINDOWS_NAME),
        _tables(folder / SKIPPED_NAME),
        read_records(paths, source, progress=progress),
        params=params,
        counts=counts,
        contigs=placer.contigs,
        bases=placer.bases,
    )


def _prepare(
    placer: CorpusPlacer, records: Callable[[], Iterable[CorpusRecord]], params: CorpusParams, folder: Path
) -> CorpusPlacer:
    """Return a placer whose aligner knows which sequences the build asks for."""
    if not isinstance(placer.aligner, BatchAligner):
        return placer

    def ask(aligner: WindowAligner) -> None:
        for _ in build_corpus_windows(records(), params, replace(placer, aligner=aligner), CorpusLedger()):
            continue

    return replace(placer, aligner=placer.aligner.prepare(ask, folder))


def _write_batches(batches: Iterable[CorpusBatch], out_dir: Path) -> dict[str, int]:
    """Write both tables, one row group per batch, so that a reader of one window reads few others."""
    rows = {WINDOWS_NAME: 0, SKIPPED_NAME: 0}
    with ExitStack() as stack:
        windows, skipped = (
            stack.enter_context(open_table_writer(out_dir / name, schema))
            for name, schema in ((WINDOWS_NAME, CORPUS_WINDOWS), (SKIPPED_NAME, CORPUS_SKIPPED))
        )
        for batch in batches:
            for name, writer, table in ((WINDOWS_NAME, windows, batch.windows), (SKIPPED_NAME, skipped, batch.skipped)):
                if table.num_rows:
                    writer.write_table(table)
                rows[name] += table.num_rows
    return rows


def _tables(path: Path) -> Iterator[pa.Table]:
    """Yield an empty table with the schema of a file, then its row groups."""
    with pq.ParquetFile(path) as file:
        yield file.schema_arrow.empty_table()
        for group in range(file.num_row_groups):
            yield file.read_row_group(group)


def _count_rows(path: Path) -> int:
    """Return the number of rows of a file; raise if a column of it cannot be read."""
    for fault in look_at_corpus_file(path):
        raise fault
    with _open(path) as file:
        return int(file.metadata.num_rows)


def _open(path: Path) -> pq.ParquetFile:
    if not path.is_file():
        problem = "is a directory" if path.is_dir() else "does not exist"
        raise InputError(str(path), problem, expected="a Parquet file", remedy="Correct the path in the catalogue")
    try:
        return pq.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise InputError(str(path), f"not a readable Parquet file ({error})", remedy="Fetch the file again") from error


def _batches(file: pq.ParquetFile, columns: list[str], path: Path) -> Iterator[pa.RecordBatch]:
    try:
        yield from file.iter_batches(batch_size=_READ_ROWS, columns=columns)
    except (pa.ArrowException, OSError) as error:
        raise InputError(str(path), f"cannot be read ({error})", remedy="Fetch the file again") from error
