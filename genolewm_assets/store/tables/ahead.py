"""Work done ahead of its taker in other threads, its results in order; memory is a few results."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

_AHEAD = 2

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_ahead(
    work: Callable[[_Item], _Result],
    items: Iterable[_Item],
    *,
    threads: int,
    ahead: int = _AHEAD,
    caller_helps: bool = False,
) -> Iterator[_Result]:
    """Apply ``work`` to items in other threads and yield the results in the items' order.

    At most ``threads + ahead`` results wait; the items are drawn in the caller's thread. Closing the generator, as
    leaving a loop over it does, waits for what is under way and drops the rest.

    Parameters
    ----------
    caller_helps
        Whether the caller, where it would wait for the next result, does work that no thread has begun.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix="read-ahead")
    waiting: deque[_Task[_Item, _Result]] = deque()

    def take() -> _Result:
        if caller_helps:
            _help(waiting, work)
        return waiting.popleft().future.result()

    try:
        for item in items:
            waiting.append(_Task(item, pool.submit(work, item)))
            if len(waiting) > threads + ahead:
                yield take()
        while waiting:
            yield take()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@dataclass(slots=True)
class _Task(Generic[_Item, _Result]):
    item: _Item
    future: Future[_Result]


def _help(waiting: Iterable[_Task[_Item, _Result]], work: Callable[[_Item], _Result]) -> None:
    """Do tasks that nobody has begun until the first one is done or none is left."""
    first = next(iter(waiting))
    while not first.future.done():
        task = next((task for task in waiting if task.future.cancel()), None)
        if task is None:
            return
        task.future = Future()
        try:
            task.future.set_result(work(task.item))
        except BaseException as err:  # noqa: BLE001 - raised where the result is taken, in its turn
            task.future.set_exception(err)
