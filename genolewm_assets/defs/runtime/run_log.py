"""Progress of a build as lines in the log of its run: how far, how fast, how long still."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

#: Seconds between two lines.
INTERVAL_S = 5.0


@dataclass(slots=True)
class _Stage:
    """A stretch of work that is counted in one unit, towards one total.

    Attributes
    ----------
    started_s, first
        When it was first heard of, and how much was done then: a resumed download does not begin at 0.
    done
        Last heard of.
    said
        Whether a line was said of it.
    """

    unit: str
    total: int | None
    started_s: float
    first: int
    done: int
    said: bool = False


class LogProgress:
    """A progress sink (``store.Progress``) that writes lines, at most one every few seconds.

    A build has stages (download, scan, audit, hashing), each counted by itself: a new one begins where the unit or the
    total changes, or the count falls back. The rate is that of the stage.

    Parameters
    ----------
    log
        Takes each line.
    clock
        Seconds, ascending.
    """

    def __init__(self, log: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = log, clock
        self._said_s = clock()
        self._stage: _Stage | None = None

    def advance(self, done: int, total: int | None, unit: str) -> None:
        """Say where the build stands, if it is time to, or if a stage that was spoken of has come to its end."""
        now, stage = self._clock(), self._stage
        if stage is None or (stage.unit, stage.total) != (unit, total) or done < stage.done:
            stage = self._stage = _Stage(unit, total, now, done, done)
        ended = stage.said and done == total and done != stage.done
        stage.done = done
        if ended or now - self._said_s >= INTERVAL_S:
            self._said_s, stage.said = now, True
            self._log(_line(stage, now - stage.started_s))


def _line(stage: _Stage, seconds: float) -> str:
    """Return one line; a stage that has just begun has no rate yet.

    >>> _line(_Stage("windows", 1_000, 0.0, 0, 250), 10.0)
    '250 windows of 1,000 (25 %), 25 windows/s, 30 s left'
    """
    rate = (stage.done - stage.first) / seconds if seconds > 0 else 0.0
    text = f"{stage.done:,} {stage.unit}"
    if stage.total:
        text += f" of {stage.total:,} ({stage.done / stage.total:.0%})".replace("%", " %")
    if rate:
        text += f", {rate:,.0f} {stage.unit}/s"
    if rate and stage.total:
        text += f", {max(0, stage.total - stage.done) / rate:,.0f} s left"
    return text
