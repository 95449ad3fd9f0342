from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from genolewm_assets.errors import VcfError
from genolewm_assets.store.tables import spool as module
from genolewm_assets.store.tables.ahead import map_ahead
from genolewm_assets.store.tables.spool import BatchSpool
from genolewm_assets_tests.rows import each_row

GENES, NAMES = pa.list_(pa.int64()), pa.dictionary(pa.int32(), pa.string())
ROWS = pa.schema([("name", pa.string()), ("genes", GENES), ("n", pa.int64()), ("d", NAMES)])
AWKWARD = "HLA-A*01:01/x"


def batch(first: int, number: int) -> pa.RecordBatch:
    """Return rows that are a slice of larger ones, each batch with a dictionary of its own."""
    rows = range(first - 1, first + number + 1)
    columns = [
        pa.array([f"x{at}" if at % 3 else None for at in rows]),
        pa.array([[at, None] if at % 2 else [] for at in rows], pa.list_(pa.int64())),
        pa.array(rows, pa.int64()),
        pa.array([str(at // 4) for at in rows]).dictionary_encode(),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ROWS).slice(1, number)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.tuples(st.sampled_from(["chr2", AWKWARD, "chr3"]), st.integers(0, 9)), max_size=30),
    rows=st.sampled_from([1, 4, 50]),
    gathered=st.sampled_from([0, 500, 1 << 20]),
    memory=st.sampled_from([0, 1_000, 1 << 20]),
)
@example(sizes=[("chr3", 8), ("chr2", 2), ("chr2", 0), ("chr2", 2)], rows=1, gathered=0, memory=batch(0, 8).nbytes)
def test_spool_gives_back_what_it_was_given(
    tmp_path: Path, sizes: list[tuple[str, int]], rows: int, gathered: int, memory: int
) -> None:
    """Also in two rounds: rows appended after others were read, when there is memory again, come in their order."""
    expected: dict[str, list[dict[str, object]]] = {}
    with pytest.MonkeyPatch.context() as patch, BatchSpool(ROWS, tmp_path / "out") as spool:
        patch.setattr(module, "_GATHER_ROWS", rows)
        patch.setattr(module, "_GATHER_BYTES", gathered)
        patch.setattr(module, "_MEMORY_BYTES", memory)
        for at, (contig, size) in enumerate(sizes):
            spool.append(contig, batch(10 * at, size))
            expected.setdefault(contig, []).extend(batch(10 * at, size).to_pylist())
            if 2 * at == len(sizes):
                read = [row for each in spool.batches("chr3") for row in each.to_pylist()]
                assert read == expected.pop("chr3", [])
        for contig in ("chr3", "chr2", AWKWARD, "chr1"):
            batches = list(spool.batches(contig))
            assert all(each.schema.equals(ROWS) and each.num_rows for each in batches)
            assert [row for each in batches for row in each.to_pylist()] == expected.get(contig, [])
            assert not list(spool.batches(contig))
        assert not list(tmp_path.rglob("*.arrows"))
    assert not tmp_path.joinpath("out").exists() or not list(tmp_path.joinpath("out").iterdir())


def test_few_rows_never_touch_the_disk(tmp_path: Path) -> None:
    with BatchSpool(ROWS, tmp_path / "out") as spool:
        spool.append("chr1", batch(0, 40_000))
        assert sum(each.num_rows for each in spool.batches("chr1")) == 40_000
    assert not (tmp_path / "out").exists()


def test_memory_is_bounded_and_files_go_once_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MEMORY_BYTES", 1 << 20)
    monkeypatch.setattr(module, "_GATHER_BYTES", 1 << 20)
    part = batch(0, 5_000)
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    with BatchSpool(ROWS, tmp_path) as spool:
        for at in range(200):
            spool.append(f"chr{at % 7}", part)
        assert pool.bytes_allocated() - before < 4 << 20
        assert len(list(tmp_path.rglob("*.arrows"))) == 7
        for at in range(7):
            total = 0
            for each in spool.batches(f"chr{at}"):
                total += each.num_rows
                assert pool.bytes_allocated() - before < 12 << 20
            assert total == 5_000 * len(range(at, 200, 7))
            assert len(list(tmp_path.rglob("*.arrows"))) == 6 - at


def test_few_rows_of_many_contigs_are_put_aside_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GATHER_BYTES", 3 * batch(0, 2).nbytes)
    monkeypatch.setattr(module, "_MEMORY_BYTES", 0)
    with BatchSpool(ROWS, tmp_path) as spool:
        for at in range(5):
            spool.append(f"chr{at}", batch(10, 2))
            assert len(list(tmp_path.rglob("*.arrows"))) == (3 if at >= 2 else 0)


def test_spool_that_an_error_ends_half_read_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MEMORY_BYTES", 0)
    monkeypatch.setattr(module, "_GATHER_ROWS", 1)
    with pytest.raises(KeyError), BatchSpool(ROWS, tmp_path) as spool:
        for at in range(6):
            spool.append(f"chr{at % 2}", batch(at, 1))
        batches = spool.batches("chr1")
        next(batches)
        assert len(list(tmp_path.rglob("*.arrows"))) == 2
        raise KeyError
    assert not list(tmp_path.iterdir())


def _readers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("read-ahead")]


@each_row("threads", [1, 2, 5])
def test_results_come_in_order_and_few_items_are_drawn_ahead(threads: int) -> None:
    assert list(map_ahead(lambda n: n, [], threads=threads)) == []
    drawn: list[int] = []

    def items() -> Iterator[int]:
        for item in count():
            drawn.append(item)
            yield item

    results = map_ahead(lambda n: n * n, items(), threads=threads)
    for expected in range(50):
        assert next(results) == expected**2
        assert len(drawn) - expected - 1 <= threads + 2
    results.close()  # type: ignore[attr-defined]
    assert not _readers()


def test_an_error_comes_in_its_turn_and_leaves_no_thread() -> None:
    def work(item: int) -> int:
        if item == 3:
            raise VcfError("a.gz", "is broken")
        return item

    results = map_ahead(work, range(100), threads=2)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(VcfError, match="is broken"):
        next(results)
    assert not _readers()
    assert list(results) == []


def test_an_error_of_the_items_leaves_no_thread() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise VcfError("a.gz", "is broken")

    with pytest.raises(VcfError, match="is broken"):
        list(map_ahead(lambda n: n, items(), threads=2))
    assert not _readers()


def test_results_do_not_wait_for_items_that_come_slowly() -> None:
    taken: list[int] = []
    before: list[int] = []

    def items() -> Iterator[int]:
        for item in range(4):
            before.append(len(taken))
            time.sleep(0.1)
            yield item

    for each in map_ahead(lambda n: n, items(), threads=1, caller_helps=True):
        taken.append(each)  # noqa: PERF402 - what is taken is looked at meanwhile
    assert taken == before == [0, 1, 2, 3]


def test_the_caller_helps_where_it_would_wait() -> None:
    workers: dict[int, str] = {}
    begun = threading.Event()

    def work(item: int) -> int:
        workers[item] = threading.current_thread().name
        if item == 0:
            # The one other thread is kept busy until the caller has done something.
            begun.wait(30)
        else:
            begun.set()
        if item == 2:
            raise ValueError(item)
        return item * item

    found = map_ahead(work, range(6), threads=1, caller_helps=True)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(ValueError, match="2"):
        next(found)
    assert workers[0].startswith("read-ahead")
    assert threading.current_thread().name in workers.values()


def test_without_help_the_caller_does_nothing() -> None:
    workers = set(map_ahead(lambda _: threading.current_thread().name, range(50), threads=2))
    assert threading.current_thread().name not in workers
