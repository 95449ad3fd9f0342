"""Progress of a build as lines in its run's log: amount done, rate, seconds left."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

#: Least number of seconds between two lines.
INTERVAL_S = 5.0


@dataclass(slots=True)
class _Stage:
    """A part of a build whose work is counted in one unit towards one total.

    Attributes
    ----------
    started_s, first
        Time and amount of the first report; a resumed download does not begin at 0.
    done
        Amount of the last report.
    logged
        Whether a line about this stage was logged.
    """

    unit: str
    total: int | None
    started_s: float
    first: int
    done: int
    logged: bool = False


class LogProgress:
    """A progress sink (``progress.Progress``) that logs at most one line per :data:`INTERVAL_S`.

    A build has stages (download, scan, audit, hashing), each with a count of its own. A new stage begins when the unit
    or the total changes or the count decreases. Rates are computed per stage.

    Parameters
    ----------
    log
        Called with each line.
    clock
        Returns seconds that never decrease.
    """

    def __init__(self, log: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._log, self._clock = log, clock
        self._logged_s = clock()
        self._stage: _Stage | None = None

    def advance(self, done: int, total: int | None, unit: str) -> None:
        """Log progress if the interval has passed, or if a stage that was logged before is complete."""
        now, stage = self._clock(), self._stage
        if stage is None or (stage.unit, stage.total) != (unit, total) or done < stage.done:
            stage = self._stage = _Stage(unit, total, now, done, done)
        ended = stage.logged and done == total and done != stage.done
        stage.done = done
        if ended or now - self._logged_s >= INTERVAL_S:
            self._logged_s, stage.logged = now, True
            self._log(_line(stage, now - stage.started_s))


def _line(stage: _Stage, seconds: float) -> str:
    """Return one line of progress; a stage that has just begun has no rate yet.

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
