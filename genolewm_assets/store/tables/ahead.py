"""Ordered parallel map: worker threads compute a bounded number of results ahead of the consumer."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
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
) -> Generator[_Result, None, None]:
    """Apply ``work`` to items in worker threads and yield the results in the order of the items.

    Items are drawn in the thread of the caller. An exception of ``work`` is raised in place of its result. Closing the
    generator waits for the tasks that have started and cancels the others.

    Parameters
    ----------
    ahead
        At most ``threads + ahead`` tasks are unfinished or wait with their result when an item is drawn.
    caller_helps
        Let the caller run unstarted tasks instead of waiting for the next result.
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
    """Run unstarted tasks until the first task is done or no unstarted task remains."""
    first = next(iter(waiting))
    while not first.future.done():
        task = next((task for task in waiting if task.future.cancel()), None)
        if task is None:
            return
        task.future = Future()
        try:
            task.future.set_result(work(task.item))
        except BaseException as err:  # noqa: BLE001 - raised when the consumer takes this result
            task.future.set_exception(err)
