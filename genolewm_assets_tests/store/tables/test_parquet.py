from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.store.tables import parquet
from genolewm_assets.store.tables.parquet import (
    cast_table,
    choose_encodings,
    give_memory_back,
    read_table,
    write_table,
    write_tables,
)
from genolewm_assets.variants.schema import CLINVAR_VARIANTS, GNOMAD_VARIANTS
from genolewm_assets.windows.reference.schema import GENOME_CONTIGS


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
        write_table([contigs(0, 70_000), contigs(70_000, 5)], path, GENOME_CONTIGS, recipe={"release": "r"}) == 70_005
    )
    stored = pq.ParquetFile(path)
    assert stored.schema_arrow.equals(GENOME_CONTIGS.arrow)
    assert GENOME_CONTIGS.arrow.field("length").metadata == stored.schema_arrow.field("length").metadata
    groups = [stored.metadata.row_group(at) for at in range(stored.metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [65_536, 4469]
    column = groups[1].column(1)
    assert (column.statistics.min, column.statistics.max) == (65_536, 70_004)
    assert column.compression == "ZSTD"
    assert column.has_offset_index
    assert stored.metadata.metadata[b"genolewm.table"] == b"genome_contigs"
    assert stored.metadata.metadata[b"genolewm.release"] == b"r"
    assert pq.read_table(path)["length"].to_pylist() == list(range(70_005))


def test_values_inside_lists_and_structs_have_encodings_of_their_own() -> None:
    entries = [[{"pos": 1_000 * at + i, "ref": "A"} for i in range(3)] for at in range(50)]
    kind = pa.list_(pa.struct([("pos", pa.int64()), ("ref", pa.string())]))
    repetitive, encodings = choose_encodings(pa.table({"alleles": pa.array(entries, kind)}))
    assert repetitive == ["alleles.list.element.ref"]
    assert encodings == {"alleles.list.element.pos": "DELTA_BINARY_PACKED"}


def test_no_tables_give_an_empty_file_with_the_schema(tmp_path: Path) -> None:
    assert write_table([], tmp_path / "x.parquet", GENOME_CONTIGS) == 0
    table = pq.read_table(tmp_path / "x.parquet")
    assert table.num_rows == 0
    assert table.schema.equals(GENOME_CONTIGS.arrow)


@pytest.mark.slow
@given(cuts=st.lists(st.integers(0, 180_000), max_size=6))
@settings(max_examples=8)
@example(cuts=[65_536, 131_072])
@example(cuts=[131_073, 150_001])
@example(cuts=[1, 2, 70_000])
def test_the_bytes_depend_on_the_rows_alone(tmp_path_factory: pytest.TempPathFactory, cuts: list[int]) -> None:
    table = contigs(0, 180_000)
    # Long enough that pages end by their size too.
    table = table.set_column(4, "md5", pa.array([f"{at * 7919 % 180_000:0>90}" for at in range(180_000)]))
    folder = tmp_path_factory.mktemp("shard")
    borders = [0, *sorted(cuts), table.num_rows]
    parts = [table.slice(start, end - start) for start, end in pairwise(borders)]
    # The same rows in other buffers: copied, encoded as a dictionary, in two chunks.
    encoded = parts[0].set_column(1, "contig", parts[0]["contig"].dictionary_encode())
    digests = set()
    for at, tables in enumerate(([table], parts, [encoded, *parts[1:]], [pa.concat_tables(parts)])):
        path = folder / str(at) / "x.parquet"
        assert write_table(iter(tables), path, GENOME_CONTIGS, recipe={"b": "2", "a": "1"}) == 180_000
        digests.add(hashlib.sha256(path.read_bytes()).hexdigest())
        groups = pq.ParquetFile(path).metadata
        assert [groups.row_group(at).num_rows for at in range(groups.num_row_groups)] == [65_536, 65_536, 48_928]
    assert len(digests) == 1


def test_only_columns_that_repeat_are_dictionary_encoded(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_table([contigs(0, 70_000)], path, GENOME_CONTIGS)
    group = pq.ParquetFile(path).metadata.row_group(0)
    encoded = {
        group.column(at).path_in_schema for at in range(group.num_columns) if group.column(at).has_dictionary_page
    }
    # Parquet has no dictionaries of booleans (circular).
    assert encoded == {"acgt_bases", "acgt_runs"}


def test_a_file_that_is_no_parquet_is_an_error_of_one_line(tmp_path: Path) -> None:
    write_table([contigs(0, 9)], path := tmp_path / "key=1.parquet", GENOME_CONTIGS)
    assert read_table(path, ["md5"]).column_names == ["md5"]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorruptResourceError, match=r"key=1\.parquet: cannot be read as Parquet"):
        read_table(path)


def test_the_choice_of_encodings_looks_into_lists() -> None:
    table = pa.table(
        {
            "unique": range(100),
            "pairs": [at // 2 for at in range(100)],
            "words": [["a", "b"]] * 100,
            "numbers": [[at, -at - 1] for at in range(100)],
            "missing": pa.nulls(100, pa.string()),
            "empty": pa.array([[]] * 100, pa.list_(pa.string())),
        }
    )
    repetitive, encodings = choose_encodings(table)
    assert repetitive == ["pairs", "words.list.element", "missing", "empty.list.element"]
    assert encodings == {"unique": "DELTA_BINARY_PACKED", "numbers.list.element": "DELTA_BINARY_PACKED"}


def test_every_shard_schema_can_be_written(tmp_path: Path) -> None:
    for schema in (CLINVAR_VARIANTS, GNOMAD_VARIANTS):
        empty = schema.empty()
        assert write_table([empty, empty], tmp_path / "x.parquet", schema) == 0
        assert pq.read_table(tmp_path / "x.parquet").schema.equals(schema.arrow)


def test_a_null_where_none_may_be_is_refused() -> None:
    table = contigs(0, 2).set_column(0, "length", pa.array([1, None], pa.int64()))
    with pytest.raises((pa.ArrowInvalid, ValueError), match="null"):
        cast_table(table, GENOME_CONTIGS)


@pytest.mark.parametrize("rows", [0, 1, 3, 4, 5, 7, 8, 9, 12, 16, 20, 21])
def test_row_groups_end_where_they_should(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 8)
    monkeypatch.setattr(parquet, "_PART_ROWS", 4)
    table = contigs(0, rows)
    for name, tables in {"one": [table], "many": [table.slice(at, 3) for at in range(0, rows, 3)]}.items():
        path = tmp_path / name
        assert write_table(tables, path, GENOME_CONTIGS) == rows
        stored = pq.ParquetFile(path)
        groups = [stored.metadata.row_group(at).num_rows for at in range(stored.metadata.num_row_groups)]
        assert groups == [8] * (rows // 8) + [rows % 8] * (rows % 8 > 0)
        assert stored.read()["length"].to_pylist() == list(range(rows))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "many").read_bytes()


def test_files_written_together_are_those_written_one_by_one(tmp_path: Path) -> None:
    sizes = {"a": 40_000, "b": 0, "c": 5, "d": 70_000}
    drawn: list[str] = []

    def tables(name: str) -> Iterator[pa.Table]:
        for at in range(0, sizes[name], 9_999):
            drawn.append(name)
            yield contigs(at, min(9_999, sizes[name] - at))

    together = {name: tmp_path / "together" / name for name in sizes}
    files = ((path, tables(name)) for name, path in together.items())
    assert write_tables(files, GENOME_CONTIGS) == {together[name]: rows for name, rows in sizes.items()}
    assert drawn == sorted(drawn)
    for name, path in together.items():
        write_table(tables(name), tmp_path / name, GENOME_CONTIGS)
        assert path.read_bytes() == (tmp_path / name).read_bytes()
    assert write_tables([], GENOME_CONTIGS) == {}


def test_an_error_among_the_tables_or_in_the_writer_comes_out(tmp_path: Path) -> None:
    def broken() -> Iterator[pa.Table]:
        yield contigs(0, 70_000)
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        write_tables([(tmp_path / "a", [contigs(0, 5)]), (tmp_path / "b", broken())], GENOME_CONTIGS)
    null = contigs(0, 2).set_column(0, "length", pa.array([1, None], pa.int32()))
    with pytest.raises((pa.ArrowInvalid, ValueError), match="null"):
        write_tables([(tmp_path / "a", [null]), (tmp_path / "b", [contigs(0, 5)])], GENOME_CONTIGS)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries return memory in another way")
def test_memory_that_the_c_library_keeps_is_given_back() -> None:
    def anonymous_mib() -> int:
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return int(status["RssAnon"].split()[0]) >> 10

    half, pool = pa.array([1.5] * 512), pa.system_memory_pool()
    blocks = [pa.concat_arrays([half, half], memory_pool=pool) for _ in range(8_192)]
    held = anonymous_mib()
    # The last one keeps the heap from becoming shorter.
    del blocks[:-1]
    give_memory_back()
    assert held - anonymous_mib() > 50
