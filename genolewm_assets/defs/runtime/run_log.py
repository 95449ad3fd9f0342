"""Progress of a build as lines in its run's log: stage, amount done, rate, seconds left; what a run kept, as a tag."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import dagster as dg
from rich.filesize import decimal

#: Seconds between two lines, of work that reports its amounts and of work that does not.
INTERVAL_S = 5.0

#: Receives the lines of progress besides the run's log; None: nobody.
_ECHO: ContextVar[Callable[[str], object] | None] = ContextVar("echo", default=None)


#: Tag with the assets of which a run kept what was published; lists of runs show it under the run's name.
KEPT_TAG = "genolewm/kept"


def tag_kept(instance: dg.DagsterInstance, run_id: str, asset: str) -> None:
    """Add an asset to those of which a run kept what was published."""
    run = instance.get_run_by_id(run_id)
    if run is not None:
        kept = {*filter(None, run.tags.get(KEPT_TAG, "").split(", ")), asset}
        instance.add_run_tags(run_id, {KEPT_TAG: ", ".join(sorted(kept))})


@contextmanager
def echoing(say: Callable[[str], object]) -> Iterator[None]:
    """Pass the lines of progress of the runs inside, which are of this thread, to ``say`` too."""
    token = _ECHO.set(say)
    try:
        yield
    finally:
        _ECHO.reset(token)


@dataclass(slots=True)
class _Stage:
    """A part of a build whose work is counted in one unit towards one total."""

    unit: str
    total: int | None
    #: ``started_s``, ``first``: time and amount of the first report; a resumed download does not begin at 0.
    started_s: float
    first: int
    #: Amount of the last report.
    done: int
    #: Whether a line about this stage was logged.
    logged: bool = False


class LogProgress:
    """A progress sink (``progress.Progress``) that logs one line per :data:`INTERVAL_S`.

    A build has stages (download, scan, audit, hashing), each with a count and a rate of its own. A new stage begins
    when the unit or the total changes or the count decreases. As a context manager it also logs a line after each
    interval in which nothing was reported.

    Parameters
    ----------
    log
        Called with each line, also from another thread.
    clock
        Returns seconds that never decrease.
    """

    def __init__(self, log: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._run_log, self._echo, self._clock = log, _ECHO.get(), clock
        self._begun_s = self._logged_s = self._reported_s = clock()
        self._stage: _Stage | None = None
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._watch = threading.Thread(target=self._fill_silence, name="progress", daemon=True)

    def __enter__(self) -> LogProgress:
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._watch.join()

    def advance(self, done: int, total: int | None, unit: str) -> None:
        """Log progress if the interval has passed, or if a stage that was logged before is complete."""
        with self._lock:
            now, stage = self._clock(), self._stage
            if stage is None or (stage.unit, stage.total) != (unit, total) or done < stage.done:
                stage = self._stage = _Stage(unit, total, now, done, done)
            ended = stage.logged and done == total and done != stage.done
            stage.done, self._reported_s = done, now
            if ended or now - self._logged_s >= INTERVAL_S:
                self._logged_s, stage.logged = now, True
                self._log(_line(stage, now - stage.started_s))

    def tick(self) -> None:
        """Log the last report, or how long nothing was reported, if no line was logged within the interval."""
        with self._lock:
            now, stage = self._clock(), self._stage
            if now - self._logged_s < INTERVAL_S:
                return
            self._logged_s = now
            if stage is None:
                self._log(f"at work for {now - self._begun_s:,.0f} s")
            elif now - self._reported_s < INTERVAL_S:
                stage.logged = True
                self._log(_line(stage, self._reported_s - stage.started_s))
            else:
                self._log(f"at work for {now - self._reported_s:,.0f} s since {_amount(stage)}")

    def _log(self, line: str) -> None:
        self._run_log(line)
        if self._echo is not None:
            self._echo(line)

    def _fill_silence(self) -> None:
        while not self._ended.wait(INTERVAL_S / 5):
            self.tick()


def _line(stage: _Stage, seconds: float) -> str:
    """Return one line of progress; a stage that has just begun has no rate yet.

    >>> _line(_Stage("windows", 1_000, 0.0, 0, 250), 10.0)
    '250 of 1,000 windows (25 %), 25/s, 30 s left'
    >>> _line(_Stage("bytes hashed", 2_000_000, 0.0, 0, 500_000), 10.0)
    '500.0 kB of 2.0 MB hashed (25 %), 50.0 kB/s, 30 s left'
    """
    rate = (stage.done - stage.first) / seconds if seconds > 0 else 0.0
    text = _amount(stage)
    if rate:
        text += f", {_number(round(rate), stage.unit)}/s"
    if rate and stage.total:
        text += f", {max(0, stage.total - stage.done) / rate:,.0f} s left"
    return text


def _amount(stage: _Stage) -> str:
    """Return how much of a stage is done: ``250 of 1,000 windows (25 %)``."""
    what = stage.unit.removeprefix("bytes").strip()
    text = _number(stage.done, stage.unit)
    if stage.total:
        text += f" of {_number(stage.total, stage.unit)}"
    text += f" {what}" if what else ""
    return f"{text} ({stage.done / stage.total:.0%})".replace("%", " %") if stage.total else text


def _number(count: int, unit: str) -> str:
    return decimal(count) if unit.startswith("bytes") else f"{count:,}"
