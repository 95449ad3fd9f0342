"""Array stores with damage that no disk makes: each question ends soon with a right answer or an error of the house."""

from __future__ import annotations

import json
import os
import pickle
import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.errors import GenoLeWMError
from genolewm_assets.store import ArrayStoreReader
from genolewm_assets.store.arrays.log import _line
from genolewm_assets.store.arrays.report import inspect_cache, verify_array_store
from genolewm_assets_tests.faults.killing import start
from genolewm_assets_tests.worlds.store.array_stores import (
    FINGERPRINT,
    contents,
    finish,
    key,
    open_writer,
    seal,
    values,
    write_rows,
)

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("no_syncs")]

ROWS = 21
Damage = Callable[[Path], object]
DEEP = b"[" * 100_000 + b"]" * 100_000
MANY = 4_000


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finish(tmp_path_factory.mktemp("array") / "store", ROWS)


def crc(change: Callable[[dict[str, Any]], object]) -> Damage:
    return lambda directory: seal(directory, change)


def file(name: str, data: bytes) -> Damage:
    def damage(directory: Path) -> None:
        (directory / name).write_bytes(data)
        seal(directory)

    return damage


def shapes(**fields: object) -> Damage:
    def damage(directory: Path) -> None:
        document = json.loads((directory / "shapes.json").read_bytes())
        file("shapes.json", json.dumps({**document, **fields}).encode())(directory)

    return damage


def array(**fields: object) -> Damage:
    """Change what ``shapes.json`` says of the first array."""

    def damage(directory: Path) -> None:
        arrays = json.loads((directory / "shapes.json").read_bytes())["arrays"]
        shapes(arrays=[{**arrays[0], **fields}, *arrays[1:]])(directory)

    return damage


def index(change: Callable[[pa.Table], pa.Table]) -> Damage:
    def damage(directory: Path) -> None:
        table = pq.ParquetFile(directory / "index.parquet").read()
        # Without Arrow's own schema every column is read as what its Parquet type says.
        pq.write_table(change(table), directory / "index.parquet", store_schema=False)
        seal(directory)

    return damage


def column(name: str, values: pa.Array) -> Damage:
    return index(lambda table: table.set_column(table.column_names.index(name), name, values))


def blown_up(table: pa.Table) -> pa.Table:
    """Give every row the same 20 MB of text, which take little room on disk."""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int32()), ["a" * 20_000_000])
    return table.set_column(table.column_names.index("meta_json"), "meta_json", text)


NONSENSE: dict[str, Damage] = {
    "huge row count": shapes(n_rows=10**30),
    "negative row count": shapes(n_rows=-ROWS),
    "row count of text": shapes(n_rows="21"),
    "broken row count": shapes(n_rows=21.5),
    "row count that is no number": shapes(n_rows=float("nan")),
    "row count of another type": shapes(n_rows=[ROWS]),
    "no row count": shapes(n_rows=None),
    "negative shape": array(shape=[-3, -5]),
    "huge shape": array(shape=[2**62, 2**62]),
    "endless dimension": array(shape=[float("inf")]),
    "shape of text": array(shape="35"),
    "broken dimensions": array(shape=[3.7, 5.2]),
    "a hundred dimensions": array(shape=[1] * 100 + [3, 5]),
    "many huge dimensions": array(shape=[10**400] * 2_000),
    "an array outside": array(name="../outside/secret"),
    "an absolute array": array(name="/etc/passwd"),
    "dtype of objects": array(dtype="object"),
    "dtype of another type": array(dtype=["int8"]),
    "a field too many": array(offset=3),
    "no arrays": shapes(arrays=[]),
    "many arrays": shapes(arrays=[{"name": f"a{n}", "shape": [1], "dtype": "int8"} for n in range(MANY)]),
    "many columns": shapes(columns=[[f"a{n}", "int8"] for n in range(MANY)]),
    "many side-cars": shapes(sidecars=[f"a{n}" for n in range(MANY)]),
    "side-cars of text": shapes(sidecars="ab"),
    "a side-car outside": shapes(sidecars=["../outside/secret"]),
    "a side-car that is not there": shapes(sidecars=["panel", "allele", "more"]),
    "broken batches": shapes(batch_rows=8.5),
    "huge batches": shapes(batch_rows=10**12),
    "batches beyond all": shapes(batch_rows=10**30),
    "batches of one row": shapes(batch_rows=1),
    "batches of True": shapes(batch_rows=True),
    "another key column": shapes(key_column="other"),
    "a key of another type": shapes(key=[1]),
    "shapes of a list": file("shapes.json", b"[]"),
    "deep shapes": file("shapes.json", DEEP),
    "no shapes": file("shapes.json", b""),
    "shapes of no text": file("shapes.json", b"\xff\xfe"),
    "a number too long": file("shapes.json", b"9" * 100_000),
    "checksums of a list": crc(lambda _: []),
    "checksums of nothing": crc(lambda _: b"null"),
    "deep checksums": crc(lambda _: DEEP),
    "no files": crc(lambda document: document.pop("files") and None),
    "files of a list": crc(lambda document: document.update(files=[1])),
    "a file outside": crc(lambda document: document["files"].update({"../outside/secret": "00000000"})),
    "an absolute file": crc(lambda document: document["files"].update({"/dev/zero": "00000000"})),
    "a pipe outside": crc(lambda document: document["files"].update({"../outside/pipe": "00000000"})),
    "a file that is not covered": crc(lambda document: document["files"].pop("index.parquet") and None),
    "a checksum of no hex": crc(lambda document: document["files"].update({"index.parquet": "0x123456"})),
    "a checksum of another type": crc(lambda document: document["files"].update({"index.parquet": 5})),
    "arrays of a list": crc(lambda document: document.update(arrays=[1])),
    "arrays of nothing": crc(lambda document: document.update(arrays=None)),
    "an array that is not covered": crc(lambda document: document["arrays"].pop("mask") and None),
    "too few batches": crc(lambda document: document["arrays"].update(states=[])),
    "many batches": crc(lambda document: document["arrays"].update(states=["00000000"] * 300_000)),
    "batches of text": crc(lambda document: document["arrays"].update(states="abc")),
    "batches of numbers": crc(lambda document: document["arrays"].update(states=[1, 2, 3])),
    "many more arrays": crc(lambda document: document["arrays"].update({f"x{n}": [] for n in range(MANY)})),
    "another version": crc(lambda document: document.update(layout_version=99)),
    "fingerprint of a list": file("fingerprint.json", b"[]"),
    "deep fingerprint": file("fingerprint.json", b'{"sha256":"x","a":' + DEEP + b"}"),
    "fingerprint of no text": file("fingerprint.json", b"\xff"),
    "panels of a list": file("panels.json", b"[]"),
    "deep panels": file("panels.json", DEEP),
    "panels with holes": file("panels.json", b'{"0":"a","7":"b"}'),
    "panels of a number": file("panels.json", b"5"),
    "panels of values": file("panels.json", b'{"0":5,"1":[],"2":null,"3":{}}'),
    "garbled index": file("index.parquet", b"PAR1garbagePAR1"),
    "empty index": file("index.parquet", b""),
    "short index": index(lambda table: table.slice(0, 5)),
    "long index": index(lambda table: pa.concat_tables([table, table])),
    "index without keys": index(lambda table: table.drop_columns(["key"])),
    "index of nulls": column("key", pa.array([None] * ROWS, pa.string())),
    "index with another type": column("start", pa.array(["x"] * ROWS)),
    "index that blows up": index(blown_up),
    "index with panels that are not there": column("panel_key", pa.array([2**31 - 1] * ROWS, pa.int32())),
}
NAMES = ["_COMPLETE", "crc.json", "shapes.json", "fingerprint.json", "index.parquet", "panels.json", "states.bin"]
OTHERS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "link outside": lambda path: path.symlink_to("../outside/secret"),
    "link to a pipe": lambda path: path.symlink_to("../outside/pipe"),
    "link without end": lambda path: path.symlink_to("/dev/zero"),
    "link to itself": lambda path: path.symlink_to(path.name),
}


def questions(directory: Path) -> dict[str, Callable[[], object]]:
    """Every question to a store, with an answer that can be compared."""

    def reader(*, check: bool) -> ArrayStoreReader:
        return ArrayStoreReader(directory, check=check)

    def rows(*, check: bool) -> list[bytes]:
        return [reader(check=check).get_rows(range(ROWS), name).tobytes() for name in values(0, 1)]

    def loaded() -> bytes:
        opened = reader(check=False)
        opened.load_in_memory()
        return opened.get_row(ROWS - 1)["states"].tobytes()

    def written() -> bool:
        with open_writer(directory) as writer:
            found = writer.resume_keys()
            if len(found) < ROWS:
                write_rows(writer, len(found), ROWS)
            writer.finalize(FINGERPRINT)
        return [key(row) for row in range(ROWS)][: len(found)] == found

    return {
        "checked rows": lambda: rows(check=True),
        "rows": lambda: rows(check=False),
        "loaded": loaded,
        "one row": lambda: bytes(reader(check=True).get_row(3)["states"]),
        "slice": lambda: bytes(reader(check=True).get_slice(0, 9, "states")),
        "keys": lambda: reader(check=False).keys(),
        "entries": lambda: len(reader(check=False).load_index()),
        "panel": lambda: isinstance(reader(check=False).sidecar("panel", 3), str),
        "alleles": lambda: len(reader(check=False).sidecar_texts("allele")),
        "fingerprint": lambda: reader(check=False).fingerprint,
        "verify": lambda: None if verify_array_store(directory) else True,
        "inspect": lambda: inspect_cache(directory).rows,
        "writer": written,
    }


LIMIT_S, LIMIT_BYTES = 30, 300 << 20


def ask(directory: Path) -> dict[str, object]:
    """Ask everything of a store in a child that has little time and memory; errors of the house are None."""
    file = directory.with_name("answers")

    def within_limits() -> None:
        # Of this process's own, whatever the test runner does at an alarm.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LIMIT_S)
        in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + LIMIT_BYTES, in_use + LIMIT_BYTES))
        found: dict[str, object] = {}
        for question, answer in questions(directory).items():
            try:
                found[question] = answer()
            except GenoLeWMError:
                found[question] = None
            except BaseException as err:  # noqa: BLE001 - what it is goes into the report
                found[question] = f"{type(err).__name__}: {str(err)[:200]}"
        file.write_bytes(pickle.dumps(found))

    _, status = os.waitpid(start(within_limits), 0)
    assert status == 0, f"hung, or ended by signal {os.WTERMSIG(status)}"
    answered: dict[str, object] = pickle.loads(file.read_bytes())
    return answered


@pytest.fixture
def store(original: Path, tmp_path: Path) -> Path:
    """A store to be damaged, and things beside it that are none of its business."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_bytes(b"secret")
    os.mkfifo(tmp_path / "outside" / "pipe")
    return Path(shutil.copytree(original, tmp_path / "store"))


@pytest.fixture(scope="module")
def right(original: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """What the undamaged store answers."""
    answered = ask(Path(shutil.copytree(original, tmp_path_factory.mktemp("right") / "store")))
    assert answered["verify"] is True
    assert answered["rows"] == [array.tobytes() for array in values(0, ROWS).values()]
    assert None not in answered.values()
    return answered


def check_answers(directory: Path, right: dict[str, object], *, committed: int = ROWS) -> dict[str, object]:
    """See that each answer is right or an error of the house, and that nothing outside was touched."""
    right = {**right, "inspect": committed}
    outside = directory.with_name("outside")
    before = outside.stat().st_mtime_ns, (outside / "secret").stat().st_mtime_ns
    answered = ask(directory)
    wrong = {question: answer for question, answer in answered.items() if answer not in (None, right[question])}
    assert wrong == {}
    assert (outside.stat().st_mtime_ns, (outside / "secret").stat().st_mtime_ns) == before
    assert (outside / "secret").read_bytes() == b"secret"
    return answered


#: What no reader has to mind: side-car keys before they are looked up.
HARMLESS = {"index with panels that are not there"}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_under_valid_checksums(store: Path, right: dict[str, object], name: str) -> None:
    NONSENSE[name](store)
    answered = check_answers(store, right)
    assert (None in answered.values()) != (name in HARMLESS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("other", OTHERS)
def test_something_else_in_place_of_a_file(store: Path, right: dict[str, object], name: str, other: str) -> None:
    (store / name).unlink()
    OTHERS[other](store / name)
    answered = check_answers(store, right)
    assert answered["verify"] is None


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", ["manifest.jsonl", "sidecars.jsonl", "states.bin", "index.parquet", "_COMPLETE"])
def test_something_else_in_place_of_a_file_that_is_written(
    store: Path, right: dict[str, object], name: str, other: str
) -> None:
    shutil.rmtree(store)
    with open_writer(store) as writer:
        write_rows(writer, 0, 11)
    (store / name).unlink(missing_ok=True)
    OTHERS[other](store / name)
    answered = check_answers(store, right, committed=11)
    assert answered["writer"] is None or contents(store)["_COMPLETE"]


LINES: dict[str, object] = {
    "a list": [],
    "a number": 5,
    "a header again": {"log_version": 1},
    "rows of text": {"rows": "12", "crc": {}, "sidecars": [0, 0], "columns": [["a"]]},
    "no rows": {"crc": {}},
    "huge rows": {"rows": 10**30, "crc": {}, "sidecars": [0, 0], "columns": [["a"]]},
    "negative rows": {"rows": -1, "crc": {}, "sidecars": [0, 0], "columns": [[]]},
    "columns of a number": {"rows": 12, "crc": {}, "sidecars": [0, 0], "columns": 5},
    "no checksums": {"rows": 12, "crc": {}, "sidecars": [10**9, 0], "columns": [["a"]] * 6},
    "side-cars from before": {"rows": 12, "crc": {}, "sidecars": [-5, 0], "columns": [["a"]] * 6},
}


@pytest.mark.parametrize("name", LINES)
def test_nonsense_in_the_commit_log_under_valid_checksums(store: Path, right: dict[str, object], name: str) -> None:
    shutil.rmtree(store)
    with open_writer(store) as writer:
        write_rows(writer, 0, 11)
    with (store / "manifest.jsonl").open("ab") as log:
        log.write(_line(LINES[name]))  # type: ignore[arg-type]
    check_answers(store, right, committed=11)
