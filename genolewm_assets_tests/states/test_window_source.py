"""Windows to encode: the rows of their tables, in order, whatever the row groups; single rows by their numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.states import WindowSource, window_source, windows_of_contig, windows_of_corpus

N_ROWS = 300
BASES = np.random.default_rng(3).choice(np.frombuffer(b"ACGT", np.uint8), 6_000).tobytes()
STARTS = [7 * row for row in range(N_ROWS)]
SIZES = [60 + 6 * (row % 90) for row in range(N_ROWS)]
SEQUENCES = [BASES[start : start + size].decode() for start, size in zip(STARTS, SIZES, strict=True)]


def contig(folder: Path, group_rows: int) -> tuple[WindowSource, list[str]]:
    ends = [start + size for start, size in zip(STARTS, SIZES, strict=True)]
    pq.write_table(pa.table({"start": STARTS, "end": ends}), folder / "w.parquet", row_group_size=group_rows)
    return windows_of_contig(folder / "w.parquet", "chr21", BASES), [f"chr21:{start}" for start in STARTS]


def corpus(folder: Path, group_rows: int) -> tuple[WindowSource, list[str]]:
    columns = {
        "record_id": [f"NM_{row // 3}" for row in range(N_ROWS)],
        "window_index": pa.array([row % 3 for row in range(N_ROWS)], pa.int32()),
        "window_bp": pa.array(SIZES, pa.int32()),
        "sequence": SEQUENCES,
    }
    pq.write_table(pa.table(columns), folder / "w.parquet", row_group_size=group_rows)
    return windows_of_corpus(folder / "w.parquet"), [f"NM_{row // 3}:{row % 3}" for row in range(N_ROWS)]


@pytest.mark.parametrize("make", [contig, corpus])
@pytest.mark.parametrize("group_rows", [1, 70, N_ROWS])
def test_rows_are_read_in_order_and_by_number(make: object, group_rows: int, tmp_path: Path) -> None:
    source, keys = make(tmp_path, group_rows)  # type: ignore[operator]
    for _ in range(2):
        batches = list(source.read())
        assert max(batch.num_rows for batch in batches) <= window_source._BATCH_ROWS
        assert [key for batch in batches for key in batch["key"].to_pylist()] == keys
        assert [each for batch in batches for each in batch["sequence"].to_pylist()] == SEQUENCES
    assert source.lengths.tolist() == SIZES
    for rows in ([], [0], [N_ROWS - 1, 3, 3, 140, 69, 70, 0]):
        assert source.take(rows) == [SEQUENCES[row] for row in rows]
