"""Rows of the files of a written package, as the checks read them: plain dictionaries, a few hundred at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow.parquet as pq

from genolewm_assets.genome import Split
from genolewm_assets.lewm.packages import PackageInfo

_READ_ROWS = 512

#: A row by column.
WrittenRow: TypeAlias = dict[str, Any]


def read_window_rows(
    directory: Path, info: PackageInfo, split: Split, columns: Sequence[str] | None = None
) -> Iterator[WrittenRow]:
    """Yield the windows of a split in the order of its files; all columns if None are named."""
    for entry in info.split_files(split):
        yield from read_rows(directory / entry.path, columns)


def read_rows(path: Path, columns: Sequence[str] | None) -> Iterator[WrittenRow]:
    """Yield the rows of a Parquet file; all columns if None are named."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_READ_ROWS, columns=columns):
            yield from batch.to_pylist()


def allele_text(row: Mapping[str, object]) -> str:
    """Return the key of an allele as text; a set of millions takes a fourth of the memory of one of tuples."""
    return f"{row['chrom']}:{row['pos']}:{row['ref']}:{row['alt']}"
