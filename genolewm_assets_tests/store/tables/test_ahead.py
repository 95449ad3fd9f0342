from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import count

import pytest

from genolewm_assets.errors import VcfError
from genolewm_assets.store.tables.ahead import map_ahead


def _readers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("read-ahead")]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(threads: int) -> None:
    assert list(map_ahead(lambda n: n * n, range(100), threads=threads)) == [n * n for n in range(100)]
    assert list(map_ahead(lambda n: n, [], threads=threads)) == []


@pytest.mark.parametrize("threads", [1, 3])
def test_few_items_are_drawn_ahead(threads: int) -> None:
    drawn: list[int] = []

    def items() -> Iterator[int]:
        for item in count():
            drawn.append(item)
            yield item

    results = map_ahead(lambda n: n, items(), threads=threads)
    for expected in range(50):
        assert next(results) == expected
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
