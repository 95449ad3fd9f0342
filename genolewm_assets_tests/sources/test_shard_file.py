from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.lewm.schema import GENOME_CONTIGS
from genolewm_assets.sources import shard_file as module
from genolewm_assets.sources.shard_file import RowSpool, cast_table, write_shard_file

ROWS = pa.schema([("name", pa.string()), ("genes", pa.list_(pa.int64())), ("n", pa.int64())])


@pytest.mark.parametrize("flush", [1, 3, 7, 1000])
def test_spool_gives_back_what_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flush: int) -> None:
    monkeypatch.setattr(module, "_FLUSH_ROWS", flush)
    rows = [(f"x{at}", [at, None] if at % 2 else [], at) for at in range(20)]
    contigs = ["chr2" if at % 3 else "HLA-A*01:01/x" for at in range(20)]
    with RowSpool(ROWS, tmp_path / "out") as spool:
        for contig, row in zip(contigs, rows, strict=True):
            spool.append(contig, row)
        for contig in ("chr2", "HLA-A*01:01/x"):
            table = spool.take(contig)
            assert table.schema.equals(ROWS)
            expected = [row for row, home in zip(rows, contigs, strict=True) if home == contig]
            assert [tuple(row.values()) for row in table.to_pylist()] == expected
        assert spool.take("chr2").num_rows == spool.take("chr1").num_rows == 0
    assert not list(tmp_path.rglob("*.arrow"))


def test_spool_leaves_nothing_behind_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FLUSH_ROWS", 1)
    with pytest.raises(KeyError), RowSpool(ROWS, tmp_path) as spool:
        spool.append("chr1", ("a", [], 1))
        assert len(list(tmp_path.rglob("*.arrow"))) == 1
        raise KeyError
    assert not list(tmp_path.iterdir())


def contigs(first: int, number: int) -> pa.Table:
    """Return rows of ``genome_contigs`` with the columns in another order, nullable, and one too many."""
    names = [f"c{at:06}" for at in range(first, first + number)]
    return pa.table(
        {
            "length": pa.array(range(first, first + number), pa.int32()),
            "contig": names,
            "extra": names,
            "circular": [False] * number,
            "md5": names,
            "acgt_bases": [1] * number,
            "acgt_runs": [1] * number,
        }
    )


def test_file_has_the_schema_statistics_and_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "x.parquet"
    assert (
        write_shard_file([contigs(0, 70_000), contigs(70_000, 5)], path, GENOME_CONTIGS, recipe={"release": "r"})
        == 70_005
    )
    stored = pq.ParquetFile(path)
    assert stored.schema_arrow.equals(GENOME_CONTIGS.arrow)
    assert GENOME_CONTIGS.arrow.field("length").metadata == stored.schema_arrow.field("length").metadata
    groups = [stored.metadata.row_group(at) for at in range(stored.metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [65_536, 4464, 5]
    column = groups[1].column(1)
    assert (column.statistics.min, column.statistics.max) == (65_536, 69_999)
    assert column.compression == "ZSTD"
    assert column.has_offset_index
    assert stored.metadata.metadata[b"genolewm.table"] == b"genome_contigs"
    assert stored.metadata.metadata[b"genolewm.release"] == b"r"
    assert pq.read_table(path)["length"].to_pylist() == list(range(70_005))


def test_no_tables_give_an_empty_file_with_the_schema(tmp_path: Path) -> None:
    assert write_shard_file([], tmp_path / "x.parquet", GENOME_CONTIGS) == 0
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.num_rows == 0
    assert table.schema.equals(GENOME_CONTIGS.arrow)


def test_same_rows_same_bytes(tmp_path: Path) -> None:
    digests = set()
    for name in ("a", "b"):
        path = tmp_path / name / f"{name}.parquet"
        write_shard_file([contigs(0, 5000)], path, GENOME_CONTIGS, recipe={"b": "2", "a": "1"})
        digests.add(hashlib.sha256(path.read_bytes()).hexdigest())
    assert len(digests) == 1


def test_a_null_where_none_may_be_is_refused() -> None:
    table = contigs(0, 2).set_column(0, "length", pa.array([1, None], pa.int64()))
    with pytest.raises((pa.ArrowInvalid, ValueError), match="null"):
        cast_table(table, GENOME_CONTIGS)
