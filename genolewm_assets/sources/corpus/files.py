"""List the Parquet files of the pretraining corpus, and read them record by record.

Not here: the meaning of a row (:mod:`~genolewm_assets.sources.corpus.layouts`).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.errors import InputError
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.sources.corpus.layouts import find_layout
from genolewm_assets.sources.files import fetch_error
from genolewm_assets.store.tables import open_parquet
from genolewm_assets.windows.corpus import FAULTS, CorpusRecord, CorpusSource, RecordFault, SkipReason

#: Rows read from a corpus file at a time.
_READ_ROWS = 64
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
    tally = FaultTally(sum(map(count_rows, paths)), max_faulty_fraction, progress)
    for path in paths:
        yield from read_file(path, source, tally)


def read_file(path: Path, source: CorpusSource, tally: FaultTally) -> Iterator[CorpusRecord]:
    """Read the records of a file of a source, and add its faults to the tally, which refuses too many."""
    with _open(path) as file:
        layout, before = find_layout(file.schema_arrow, where=str(path)), tally.done
        for batch in _batches(file, layout.columns(file.schema_arrow), path):
            for row, record in enumerate(layout.records(batch, source), tally.done - before):
                if record.fault is not None:
                    tally.add(record.fault, path, row)
                yield record
            tally.done += batch.num_rows
            tally.check(path)


def count_rows(path: Path) -> int:
    """Return the number of rows of a file; raise if a column of it cannot be read."""
    for fault in look_at_corpus_file(path):
        raise fault
    with _open(path) as file:
        return int(file.metadata.num_rows)


def count_records(urls: Sequence[str]) -> int:
    """Return the number of rows of Parquet files by their footers; raises InputError if one cannot be read."""
    found = 0
    for url in urls:
        try:
            with fsspec.open(url, "rb") as file:
                found += int(pq.read_metadata(file).num_rows)
        except Exception as error:
            raise InputError(
                url, f"its footer cannot be read ({error})", remedy="Correct the corpus section"
            ) from error
    return found


def _open(path: Path) -> pq.ParquetFile:
    if not path.is_file():
        problem = "is a directory" if path.is_dir() else "does not exist"
        raise InputError(str(path), problem, expected="a Parquet file", remedy="Correct the path in the catalogue")
    try:
        return open_parquet(path)
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
    """Faults of the first rows, ``done``, of a source of ``total`` rows."""

    total: int
    max_fraction: float
    progress: Progress = NO_PROGRESS
    done: int = 0
    counts: Counter[SkipReason] = field(default_factory=Counter)
    _shown: defaultdict[SkipReason, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, fault: RecordFault, path: Path, row: int) -> None:
        """Count a fault of a row, numbered from 0 in its file."""
        self.counts[fault.reason] += 1
        if len(self._shown[fault.reason]) < _ROWS_NAMED:
            self._shown[fault.reason].append(f"row {row} of {path.name}: {fault.got}")

    def check(self, path: Path) -> None:
        """Raise :class:`InputError` if too many of the first rows, up to a row of ``path``, are at fault."""
        self.progress.advance(self.done, self.total, "records")
        faulty = self.counts.total()
        if not faulty or faulty / self.total <= self.max_fraction:
            return
        reasons = (
            f"{n:,} {reason} (expected {FAULTS[reason]}; {'; '.join(self._shown[reason])}{'; ...' * (n > _ROWS_NAMED)})"
            for reason, n in self.counts.most_common(_REASONS_NAMED)
        )
        raise InputError(
            str(path),
            f"too many rows of this corpus source are at fault, {faulty:,} of the first {self.done:,} of "
            f"{self.total:,}",
            expected=f"at most {self.max_fraction:g} of them",
            got=", ".join(reasons),
            remedy="Correct these rows (numbers count from 0), or raise corpus.max_faulty_fraction in the catalogue",
        )
