"""Five rows of each published table, as people look at them first: one line per column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.defs.display.markdown import after_a_click, as_code, as_table
from genolewm_assets.store.artefacts import Published

_ROWS = 5
#: Longer values are cut; so are sequences and digests.
_CHARACTERS = 12
#: Bytes read at a time: a row is read without its row group.
_BUFFER_BYTES = 1 << 16


def sample_rows(published: Published) -> dict[str, dg.MetadataValue]:
    """Return five rows of each Parquet table of an artefact as Markdown; empty if it has no row.

    Files with the same columns are one table. The rows are the first ones of row groups that are evenly spaced over its
    files, or of its only row group.
    """
    tables: dict[tuple[str, ...], list[Path]] = {}
    for entry in published.manifest.files:
        if entry.path.endswith(".parquet") and entry.rows:
            path = published.file(entry.path)
            tables.setdefault(tuple(pq.read_schema(path).names), []).append(path)
    shown = [_as_markdown(published.directory, files) for files in tables.values()]
    return {"sample_rows": after_a_click("\n\n".join(shown))} if shown else {}


def _as_markdown(folder: Path, files: Sequence[Path]) -> str:
    rows = [row for _, row in zip(range(_ROWS), _read_rows(files), strict=False)]
    first, *others = (str(path.relative_to(folder)) for path in files)
    more = f" and {len(others)} more file{'s' * (len(others) != 1)}" if others else ""
    lines = [[name, *(_cell(row[name]) for row in rows)] for name in rows[0]]
    return f"**{first}**{more}\n\n{as_table([['column', *[''] * len(rows)], *lines])}"


def _read_rows(files: Sequence[Path]) -> Iterator[Mapping[str, object]]:
    """Yield rows, by way of the fewest pages that hold them."""
    groups = [(path, group) for path in files for group in range(pq.read_metadata(path).num_row_groups)]
    chosen = sorted({int(at) for at in np.linspace(0, len(groups) - 1, _ROWS)})
    for n, at in enumerate(chosen):
        path, group = groups[at]
        # The last group fills up.
        wanted = _ROWS - n if at == chosen[-1] else 1
        with pq.ParquetFile(path, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file:
            batch = next(file.iter_batches(batch_size=wanted, row_groups=[group]), None)
        yield from pa.Table.from_batches([batch]).to_pylist() if batch is not None else []


def _cell(value: object) -> str:
    """Return a value as text of a Markdown cell, cut to its first characters."""
    if value is None:
        return ""
    joined = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    text = f"{value:.5g}" if isinstance(value, float) else joined
    return as_code(text if len(text) <= _CHARACTERS else f"{text[: _CHARACTERS - 1]}…")
