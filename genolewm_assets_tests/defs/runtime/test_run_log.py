"""Progress lines: how often, with what rate, and how they tell one stage of a build from the next."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest

from genolewm_assets.defs.runtime.run_log import INTERVAL_S, LogProgress, echoing


@dataclass
class Bench:
    """A log, and a clock that is moved by hand."""

    lines: list[str] = field(default_factory=list)
    now_s: float = 100.0

    def __post_init__(self) -> None:
        self.progress = LogProgress(self.lines.append, clock=lambda: self.now_s)

    def after(self, seconds: float, done: int, total: int | None, unit: str = "bytes") -> list[str]:
        """Return what is said when work has come so far, some seconds later."""
        self.now_s += seconds
        already = len(self.lines)
        self.progress.advance(done, total, unit)
        return self.lines[already:]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_nothing_is_said_of_what_takes_no_time(bench: Bench) -> None:
    for done in range(1, 5_001):
        assert bench.after(0.0005, done, 5_000, "windows") == []


def test_a_line_says_how_far_how_fast_and_how_long_still(bench: Bench) -> None:
    assert bench.after(0, 0, 9_000, "windows") == []
    (line,) = bench.after(10, 2_000, 9_000, "windows")
    assert line == "2,000 of 9,000 windows (22 %), 200/s, 35 s left"


def test_lines_come_at_most_every_few_seconds(bench: Bench) -> None:
    said = [bool(bench.after(1, done, 1_000)) for done in range(1, 31)]
    assert sum(said) == 30 // INTERVAL_S


def test_the_end_of_what_was_spoken_of_is_said_at_once(bench: Bench) -> None:
    bench.after(0, 0, 10)
    assert bench.after(6, 9, 10)
    assert bench.after(0.1, 10, 10) == ["10 bytes of 10 bytes (100 %), 2 bytes/s, 0 s left"]
    assert bench.after(0.1, 10, 10) == []


def test_without_a_total_there_is_no_end_to_foretell(bench: Bench) -> None:
    bench.after(0, 0, None)
    assert bench.after(10, 5_000, None) == ["5.0 kB, 500 bytes/s"]


def test_a_resumed_download_counts_what_was_there_as_no_speed(bench: Bench) -> None:
    assert bench.after(0, 9_000_000, 10_000_000) == []
    assert bench.after(10, 9_100_000, 10_000_000) == ["9.1 MB of 10.0 MB (91 %), 10.0 kB/s, 90 s left"]


@pytest.mark.parametrize("done, total, unit", [(20, 1_000, "windows"), (20, 2_000, "bytes"), (20, 1_000, "bytes")])
def test_a_new_stage_has_its_own_rate(bench: Bench, done: int, total: int, unit: str) -> None:
    bench.after(0, 0, 1_000)
    bench.after(100, 1_000, 1_000)
    assert bench.after(1, done, total, unit) == []
    (line,) = bench.after(10, done + 40, total, unit)
    assert f" 4{' bytes' if unit == 'bytes' else ''}/s," in line


def test_what_was_done_before_the_first_word_has_no_rate_yet(bench: Bench) -> None:
    assert bench.after(30, 7, 10, "contigs") == ["7 of 10 contigs (70 %)"]


def test_a_silent_stage_is_filled(bench: Bench) -> None:
    bench.now_s += INTERVAL_S - 1
    bench.progress.tick()
    assert bench.lines == []
    bench.now_s += 1
    bench.progress.tick()
    bench.progress.tick()
    assert bench.lines == ["at work for 5 s"]
    assert bench.after(1, 250, 1_000, "windows") == []
    bench.now_s += 9
    bench.progress.tick()
    assert bench.lines[1:] == ["at work for 9 s since 250 of 1,000 windows (25 %)"]


def test_work_that_is_reported_often_is_told_with_its_rate(bench: Bench) -> None:
    bench.after(0, 0, 1_000, "windows")
    for done in range(1, 5):
        assert bench.after(1, 100 * done, 1_000, "windows") == []
    bench.now_s += INTERVAL_S - 4
    bench.progress.tick()
    assert bench.lines == ["400 of 1,000 windows (40 %), 100/s, 6 s left"]


def test_a_command_hears_the_lines_of_the_runs_inside() -> None:
    logged, heard = list[str](), list[str]()
    clock = iter([0.0, 0.0, 10.0])
    with echoing(heard.append):
        inside = LogProgress(logged.append, clock=lambda: next(clock))
    inside.advance(0, 9, "windows")
    inside.advance(3, 9, "windows")
    assert heard == logged == ["3 of 9 windows (33 %), 0/s, 20 s left"]
    LogProgress(logged.append, clock=iter([0.0, 10.0]).__next__).advance(1, 9, "windows")
    assert (len(logged), len(heard)) == (2, 1)


def test_silence_is_filled_by_another_thread_until_the_end() -> None:
    now_s, said = iter(range(0, 1_000_000, 10)), threading.Event()
    with LogProgress(lambda _: said.set(), clock=lambda: next(now_s)):
        assert said.wait(60)
    assert not any(thread.name == "progress" for thread in threading.enumerate())
