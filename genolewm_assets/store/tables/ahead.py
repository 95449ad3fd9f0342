"""Ordered parallel map: worker threads compute a bounded number of results ahead of the consumer."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_AHEAD = 2
#: Seconds that drawing an item takes at a slow source; the results before it are then handed on first.
_SLOW_S = 0.05

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
        Let the caller run unstarted tasks instead of waiting for the next result, and hand on all results once an item
        took 0.05 seconds to draw.
    """
    pool = ThreadPoolExecutor(threads, thread_name_prefix="read-ahead")
    waiting: deque[tuple[_Item, Future[_Result]]] = deque()

    def take() -> _Result:
        if caller_helps:
            _help(waiting, work)
        return waiting.popleft()[1].result()

    try:
        asked = time.monotonic()
        for item in items:
            slow = caller_helps and time.monotonic() - asked > _SLOW_S
            waiting.append((item, pool.submit(work, item)))
            while waiting and (slow or len(waiting) > threads + ahead):
                yield take()
            asked = time.monotonic()
        while waiting:
            yield take()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _help(waiting: deque[tuple[_Item, Future[_Result]]], work: Callable[[_Item], _Result]) -> None:
    """Run unstarted tasks until the first task is done or no unstarted task remains."""
    while not waiting[0][1].done():
        at = next((at for at, (_, future) in enumerate(waiting) if future.cancel()), None)
        if at is None:
            return
        item, own = waiting[at][0], Future[_Result]()
        waiting[at] = item, own
        try:
            own.set_result(work(item))
        except BaseException as err:  # noqa: BLE001 - raised when the consumer takes this result
            own.set_exception(err)
