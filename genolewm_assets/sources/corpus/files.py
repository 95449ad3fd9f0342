"""Read the Parquet files of the pretraining corpus record by record, and write and check files of corpus windows.

Not here: the meaning of a row (:mod:`~genolewm_assets.sources.corpus.layouts`).
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.errors import InputError
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.corpus.layouts import find_layout
from genolewm_assets.sources.corpus.parts import BatchAligner
from genolewm_assets.sources.files import fetch_error
from genolewm_assets.store.artefacts import CheckResult
from genolewm_assets.store.tables import open_table_writer
from genolewm_assets.variants import ShardReport
from genolewm_assets.windows.corpus import (
    CORPUS_SKIPPED,
    CORPUS_WINDOWS,
    FAULTS,
    CorpusBatch,
    CorpusLedger,
    CorpusParams,
    CorpusPlacer,
    CorpusRecord,
    CorpusSource,
    RecordFault,
    SkipReason,
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
    InputError, FetchError
        If there is no such file, or the path or URL cannot be read.
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
    """Read the records of a source in the files' order; refuse it if over ``max_faulty_fraction`` of rows are at fault.

    Records have 0-based half-open coordinates and upper-case sequences with T for U, other symbols unchanged.
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
    """Write ``windows.parquet`` and ``skipped.parquet`` of one source; return counts of its ledger, and rows by file.

    Raises
    ------
    InputError
        If a file cannot be read, or more rows than ``params`` allows are at fault.
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


#: Reasons, and rows of each, that a message names.
_REASONS_NAMED, _ROWS_NAMED = 3, 5


@dataclass(slots=True)
class FaultTally:
    """Faults of the first rows of a source."""

    total: int
    max_fraction: float
    counts: Counter[SkipReason] = field(default_factory=Counter)
    _shown: defaultdict[SkipReason, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, fault: RecordFault, path: Path, row: int) -> None:
        """Count a fault of a row, numbered from 0 in its file."""
        self.counts[fault.reason] += 1
        if len(self._shown[fault.reason]) < _ROWS_NAMED:
            self._shown[fault.reason].append(f"row {row} of {path.name}: {fault.got}")

    def check(self, path: Path, done: int) -> None:
        """Raise :class:`InputError` if too many of the first ``done`` rows, up to a row of ``path``, are at fault."""
        faulty = self.counts.total()
        if not faulty or faulty / self.total <= self.max_fraction:
            return
        reasons = (
            f"{n:,} {reason} (expected {FAULTS[reason]}; {'; '.join(self._shown[reason])}{'; ...' * (n > _ROWS_NAMED)})"
            for reason, n in self.counts.most_common(_REASONS_NAMED)
        )
        raise InputError(
            str(path),
            f"too many rows of this corpus source are at fault, {faulty:,} of the first {done:,} of {self.total:,}",
            expected=f"at most {self.max_fraction:g} of them",
            got=", ".join(reasons),
            remedy="Correct these rows (numbers count from 0), or raise corpus.max_faulty_fraction in the catalogue",
        )
