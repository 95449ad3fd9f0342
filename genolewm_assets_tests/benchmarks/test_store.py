"""What is measured of stores, instrument files and VCF is the work that it is said to be; failures are said."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.steps.window_memory import measure_step, step_row
from benchmarks.store import peers as store_peers
from benchmarks.store.array_stores import make_finished, make_unfinished, row_blocks
from benchmarks.store.random_rows import ROW_VALUES, Way, read_tasks
from benchmarks.store.tables import open_table, read_tables, write_table
from benchmarks.vcf.inputs import make_input
from benchmarks.vcf.tables import Setting
from benchmarks.workers import Job, measure

ROWS = 600


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured") / "stores" / str(ROW_VALUES)
    make_unfinished(folder / "unfinished", ROWS, ROW_VALUES)
    make_finished(folder / "finished", folder / "unfinished", ROW_VALUES)
    return folder / "finished"


@pytest.mark.parametrize("name", store_peers.INSTALLED)
def test_peers_read_the_same_rows(tmp_path: Path, name: str) -> None:
    rows = next(row_blocks(ROWS, ROW_VALUES))
    ways = store_peers.STORES[name](rows, tmp_path)
    assert tuple(ways) == store_peers.WAYS[name]
    wanted = np.array([5, ROWS - 1, 0, 5])
    for way in ways.values():
        assert np.array_equal(way.batch(wanted), rows[wanted])
        assert np.array_equal(way.row(7), rows[7])


def test_a_way_that_gives_other_rows_is_not_measured() -> None:
    rows = next(row_blocks(ROWS, ROW_VALUES))
    right, wrong = Way(rows.__getitem__, rows.__getitem__), Way(rows.__getitem__, lambda wanted: np.sort(rows[wanted]))
    assert min(task() for task in read_tasks({"right": right}, rows).values()) > 1
    with pytest.raises(AssertionError, match="wrong: the rows read differ"):
        read_tasks({"wrong": wrong}, rows)


def test_the_tables_show_every_job_and_say_what_was_not_measured(store: Path, tmp_path: Path) -> None:
    setting = Setting(tmp_path, None, 1, keep=False)
    reading = list(read_tables(store, setting))
    other = [*write_table(store, setting), *open_table([store], setting)]
    failed = [line.split(" | ")[0] for line in (*reading, *other) if "not measured" in line]
    assert failed == ["| LMDB", "| Lance"] * 2
    for line in (*reading, *other):
        if line.startswith("|"):
            assert line.count("|") in {8, 9, 10}, line
    shown = [line for line in reading if line.startswith("| genolewm_assets (")]
    assert [line.split(" | ")[5] for line in shown] == ["1.00", "1.00"]


def test_a_step_that_fails_is_said_to_have_failed(tmp_path: Path) -> None:
    figures = measure_step(tmp_path / "absent.yaml", tmp_path / "root", "windows/index", "chr1", runs=0)
    assert "failed" in step_row(figures, "nothing")


def test_an_input_is_made_once_and_again_when_it_is_gone(tmp_path: Path) -> None:
    made = make_input(tmp_path, "slim", 100)
    packed, stamp = made.vcf.read_bytes(), made.vcf.stat().st_mtime_ns
    assert make_input(tmp_path, "slim", 100) == made
    assert made.vcf.stat().st_mtime_ns == stamp
    assert [path.suffix for path in (made.with_index().vcf.parent).glob("*.tbi")] == [".tbi"]
    made.remove()
    assert make_input(tmp_path, "slim", 100) == made
    assert made.vcf.read_bytes() == packed


def test_a_job_that_fails_leaves_the_others_measured(tmp_path: Path) -> None:
    good = _job("good", tmp_path, "return 7")
    bad = _job("bad", tmp_path, "raise ValueError('no')")
    absent = Job("absent", (), "it is not installed")
    figures = {each.name: each for each in measure([good, bad, absent], runs=3)}
    assert (len(figures["good"].wall), figures["good"].records) == (3, 7)
    assert 1 << 20 < figures["good"].peak_bytes < 1 << 28
    assert {name: each.failure for name, each in figures.items()} == {
        "good": "",
        "bad": "ValueError: no",
        "absent": "it is not installed",
    }


def test_tasks_of_one_command_take_turns_in_one_process(tmp_path: Path) -> None:
    command, log = _logging_job(tmp_path)
    figures = measure([Job("a", command, task="a"), Job("b", command, task="b")], runs=2)
    assert [(each.records, len(each.wall), each.failure) for each in figures] == [(1, 2, ""), (2, 2, "")]
    tasks, processes = zip(*(line.split() for line in log.read_text().splitlines()), strict=True)
    assert [sorted(tasks[turn : turn + 2]) for turn in (0, 2, 4)] == [["a", "b"]] * 3
    assert len(set(processes)) == 1


def _job(name: str, folder: Path, body: str) -> Job:
    lines = [
        "from pathlib import Path",
        "from benchmarks.stopwatch import serve",
        f"def work():\n    {body}",
        f"serve(work, version='1', out=Path({str(folder / 'out')!r}))",
    ]
    return Job(name, [sys.executable, "-c", "\n".join(lines)])


def _logging_job(folder: Path) -> tuple[list[str], Path]:
    lines = [
        "import os",
        "from benchmarks.stopwatch import serve_tasks",
        f"log = lambda task: print(task, os.getpid(), file=open({str(folder / 'log')!r}, 'a', buffering=1))",
        "serve_tasks({'a': lambda: log('a') or 1, 'b': lambda: log('b') or 2}, version='1')",
    ]
    return [sys.executable, "-W", "ignore", "-c", "\n".join(lines)], folder / "log"
