"""Exported files, read with pyarrow and pandas alone: every value is the reader's, damage gives no file."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from genolewm_assets.errors import CorruptResourceError, InputError, MissingResourceError, ResourceError
from genolewm_assets.store import ArrayStoreReader
from genolewm_assets.store.arrays import export as array_export
from genolewm_assets.store.arrays.export import METADATA_KEY, export_array_store
from genolewm_assets.store.arrays.layout import ArraySpec
from genolewm_assets.store.tables.export import TableFormat
from genolewm_assets_tests.faults.kill_points import KillPoints
from genolewm_assets_tests.faults.small_disk import SmallDisk, on_small_disk
from genolewm_assets_tests.heard import Heard
from genolewm_assets_tests.worlds.store.array_stores import (
    FINGERPRINT,
    finish,
    key,
    meta,
    open_writer,
    seal,
    sidecars,
    values,
    write_rows,
)
from genolewm_assets_tests.worlds.store.leases import names
from genolewm_assets_tests.worlds.store.plans import flip

ROWS = 21
DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FORMATS = list(TableFormat)


def read(path: Path) -> pa.Table:
    """Read an exported file without this project's code."""
    if path.suffix == ".arrow":
        with pa.memory_map(str(path)) as mapped:
            return pa.ipc.open_file(mapped).read_all()
    return pq.ParquetFile(path).read()


def numbers(column: pa.ChunkedArray, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return the values of an array's column, unnested as far as its type goes."""
    array = column.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        assert array.type.extension_name == "arrow.fixed_shape_tensor"
        assert (*array.type.shape,) == shape
        array = array.storage
    for size in shape:
        if pa.types.is_fixed_size_list(array.type):
            assert dtype != "bool" or array.type.list_size == size
            array = array.flatten()
    assert array.type == pa.from_numpy_dtype(np.dtype(dtype))
    return array.to_numpy(zero_copy_only=False).reshape(-1, *shape)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finish(tmp_path_factory.mktemp("store") / "s", ROWS)


@pytest.mark.parametrize("form", FORMATS)
def test_a_reader_without_our_code_gets_everything(form: TableFormat, store: Path, tmp_path: Path) -> None:
    output = tmp_path / f"out.{form}"
    assert export_array_store(store, output, form) == ROWS
    table = read(output)
    assert table["row"].to_pylist() == list(range(ROWS))
    assert table["key"].to_pylist() == [key(row) for row in range(ROWS)]
    assert table["start"].to_pylist() == [meta(row)["start"] for row in range(ROWS)]
    notes = [json.loads(text).get("note") for text in table["meta_json"].to_pylist()]
    assert notes == [meta(row).get("note") for row in range(ROWS)]
    for name in ("panel", "allele"):
        texts, found = [sidecars(row).get(name) for row in range(ROWS)], table[f"{name}_json"]
        assert pa.types.is_dictionary(found.type)
        assert [t and json.loads(t) for t in found.to_pylist()] == [t and json.loads(t) for t in texts]
    for name, expected in values(0, ROWS).items():
        assert numbers(table[name], expected.shape[1:], str(expected.dtype)).tobytes() == expected.tobytes()
    document = json.loads(table.schema.metadata[METADATA_KEY])
    assert document["key"] == ArrayStoreReader(store).layout.key
    assert document["fingerprint"] == FINGERPRINT
    assert document["layout"]["batch_rows"] == 8
    assert document["columns"]["arrays"] == {"states": "states", "mask": "mask", "scale": "scale"}
    assert document["columns"]["sidecars"] == {"panel": "panel_json", "allele": "allele_json"}


def test_pandas_reads_it(store: Path, tmp_path: Path) -> None:
    import pandas as pd

    export_array_store(store, tmp_path / "out.parquet")
    frame = pd.read_parquet(tmp_path / "out.parquet")
    states = np.stack(frame["states"].to_list())
    assert states.dtype == np.float16
    assert states.tobytes() == values(0, ROWS)["states"].tobytes()
    assert frame["scale"].dtype == np.float32
    assert frame["panel_json"].nunique() == 4


def specs() -> st.SearchStrategy[list[ArraySpec]]:
    shapes = st.lists(st.integers(1, 3), max_size=3).map(tuple)
    dtypes = st.sampled_from([*DTYPES, "float16", "float32", "float64"])
    called = st.sampled_from(["row", "key", "a_json", "a", "b_"])
    arrays = st.tuples(called, shapes, dtypes).map(lambda drawn: ArraySpec(*drawn))
    return st.lists(arrays, min_size=1, max_size=4, unique_by=lambda spec: spec.name)


@settings(max_examples=25)
@given(data=st.data(), arrays=specs(), n_rows=st.integers(0, 7), commit_rows=st.integers(1, 3))
def test_every_dtype_shape_and_name(
    data: st.DataObject,
    arrays: list[ArraySpec],
    n_rows: int,
    commit_rows: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("any")
    rows = {spec.name: data.draw(hnp.arrays(spec.dtype, (n_rows, *spec.shape))) for spec in arrays}
    texts = [{"a": json.dumps(data.draw(st.integers(0, 2)))} if row % 2 else {} for row in range(n_rows)]
    with open_writer(folder / "s", arrays=arrays, columns={}, sidecars=("a",), commit_rows=commit_rows) as writer:
        writer.write_batch(rows, keys=[f"k{row}" for row in range(n_rows)], sidecars=texts)
        writer.finalize(FINGERPRINT)
    reader = ArrayStoreReader(folder / "s")
    for form in FORMATS:
        export_array_store(folder / "s", folder / f"out.{form}", form)
        table = read(folder / f"out.{form}")
        columns = json.loads(table.schema.metadata[METADATA_KEY])["columns"]
        assert len(set(table.column_names)) == len(table.column_names)
        assert table[columns["sidecars"]["a"]].to_pylist() == [text.get("a") for text in texts]
        for spec in arrays:
            found = numbers(table[columns["arrays"][spec.name]], spec.shape, spec.dtype)
            assert found.tobytes() == reader.get_slice(0, n_rows, spec.name).tobytes()


@pytest.mark.parametrize("form", FORMATS)
def test_pieces_make_the_same_table_and_each_export_the_same_bytes(
    form: TableFormat, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "again"):
        export_array_store(store, tmp_path / f"{name}.{form}", form)
    assert (tmp_path / f"one.{form}").read_bytes() == (tmp_path / f"again.{form}").read_bytes()
    # 41 bytes a row: pieces of 5 rows, which are not the batches of 8 that have a checksum each.
    monkeypatch.setattr(array_export, "_BATCH_BYTES", 5 * 41)
    seen = Heard()
    export_array_store(store, tmp_path / f"pieces.{form}", form, progress=seen)
    assert seen == [(done, ROWS, "rows") for done in (5, 10, 15, 20, 21)]
    assert read(tmp_path / f"pieces.{form}").equals(read(tmp_path / f"one.{form}"))


def test_a_link_is_exported_like_its_store(store: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(store)
    export_array_store(tmp_path / "link", tmp_path / "link.parquet")
    export_array_store(store, tmp_path / "store.parquet")
    assert (tmp_path / "link.parquet").read_bytes() == (tmp_path / "store.parquet").read_bytes()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("file", ["states.bin", "mask.bin", "scale.bin", "index.parquet", "panels.json"])
def test_a_flipped_bit_gives_no_file(file: str, form: TableFormat, tmp_path: Path) -> None:
    directory = finish(tmp_path / "s", ROWS)
    (tmp_path / "out").write_text("old")
    flip(directory / file, (directory / file).stat().st_size - 5)
    with pytest.raises(CorruptResourceError, match=file):
        export_array_store(directory, tmp_path / "out", form, overwrite=True)
    assert (tmp_path / "out").read_text() == "old"
    assert names(tmp_path) == ["out", "s"]


def test_what_is_refused(store: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    output.write_text("mine")
    with pytest.raises(InputError, match=r"out\.parquet: a file of that name exists. .* \(--force\)\.$"):
        export_array_store(store, output)
    assert output.read_text() == "mine"
    export_array_store(store, output, overwrite=True)
    assert read(output).num_rows == ROWS
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="a folder of that name exists"):
        export_array_store(store, tmp_path / "folder", overwrite=True)
    with pytest.raises(InputError, match="no such folder"):
        export_array_store(store, tmp_path / "none" / "out.parquet")
    with pytest.raises(InputError, match="is inside the store"):
        export_array_store(store, store / "out.parquet")
    (tmp_path / ".gen/other.0123456789ab").mkdir(parents=True)
    with pytest.raises(InputError, match="lies in a published artefact"):
        export_array_store(store, tmp_path / ".gen/other.0123456789ab/out.parquet")
    with open_writer(tmp_path / "unfinished") as writer:
        write_rows(writer, 0, 3)
    for directory in (tmp_path / "unfinished", tmp_path / "folder"):
        with pytest.raises(MissingResourceError, match="has no finished array store"):
            export_array_store(directory, tmp_path / "new.parquet")
    assert not (tmp_path / "new.parquet").exists()


def test_a_file_that_appears_meanwhile_is_not_replaced(store: Path, tmp_path: Path) -> None:
    class Another:
        def advance(self, done: int, total: int | None, unit: str) -> None:
            (tmp_path / "out").write_text("mine")

    with pytest.raises(InputError, match="a file of that name exists"):
        export_array_store(store, tmp_path / "out", progress=Another())
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out", "mine")]


def test_a_full_disk_is_an_error_that_leaves_nothing(store: Path, tmp_path: Path) -> None:
    def export(disk: SmallDisk) -> list[str]:
        disk.leave(4096)
        with pytest.raises(ResourceError, match=r"out: the storage refused to write \(No space left on device\)"):
            export_array_store(store, disk.folder / "out", TableFormat.ARROW)
        left = names(disk.folder)
        disk.leave(1 << 20)
        export_array_store(store, disk.folder / "out", TableFormat.ARROW)
        return left

    assert on_small_disk(tmp_path / "disk", export) == "[]"


def test_remains_are_swept_but_not_under_a_living_writer(store: Path, tmp_path: Path) -> None:
    dead, alive, other = (tmp_path / f".{name}.tmp" for name in ("out.00000000", "out.11111111", "other.00000000"))
    for path in (dead, alive, other):
        path.write_bytes(b"half")
    with alive.open() as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        export_array_store(store, tmp_path / "out")
    assert names(tmp_path) == sorted([alive.name, other.name, "out"])


@pytest.mark.parametrize("before", [None, b"old"])
def test_killed_anywhere_it_leaves_what_was_there(
    before: bytes | None, store: Path, tmp_path: Path, kill_points: KillPoints
) -> None:
    folders: list[Path] = []
    export_array_store(store, tmp_path / "undisturbed")
    whole = (tmp_path / "undisturbed").read_bytes()

    def prepare() -> Callable[[], object]:
        folders.append(tmp_path / str(len(folders)))
        folders[-1].mkdir()
        if before is not None:
            (folders[-1] / "out").write_bytes(before)
        return lambda: export_array_store(store, folders[-1] / "out", overwrite=True)

    further = [(pq.ParquetWriter, ["write_batch", "close"])]
    seen = set()
    for _ in kill_points(prepare, lambda: folders[-1], further=further):
        path = folders[-1] / "out"
        found = path.read_bytes() if path.exists() else None
        assert found in (before, whole)
        seen.add(found)
        export_array_store(store, path, overwrite=True)
        assert path.read_bytes() == whole
        assert names(folders[-1]) == ["out"]
    assert seen == {before, whole}


FORGED: dict[str, tuple[Callable[[pa.Table], pa.Table], str]] = {
    "fewer rows": (lambda table: table.slice(1), "is the index of another store"),
    "another column": (lambda table: table.drop_columns(["meta_json"]), "is the index of another store"),
    "a key of no side-car": (
        lambda table: table.set_column(
            table.column_names.index("panel_key"),
            table.schema.field("panel_key"),
            pa.array([99] * table.num_rows, pa.int32()),
        ),
        "has a key that is not in side-car 'panel'",
    ),
}


@pytest.mark.parametrize(("change", "message"), FORGED.values(), ids=FORGED)
def test_an_index_of_another_has_no_file(change: Callable[[pa.Table], pa.Table], message: str, tmp_path: Path) -> None:
    """Under valid checksums: what another program, or a fault of ours, might have written."""
    directory = finish(tmp_path / "store", 21)
    table = pq.ParquetFile(directory / "index.parquet").read()
    pq.write_table(change(table), directory / "index.parquet")
    seal(directory)
    with pytest.raises(CorruptResourceError, match=message):
        export_array_store(directory, tmp_path / "x.parquet")
    assert names(tmp_path) == ["store"]
