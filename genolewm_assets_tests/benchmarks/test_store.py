"""What is measured of the array store is the same work for all, and right."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks.store import jobs as store_jobs
from benchmarks.store import peers as store_peers
from benchmarks.store.array_stores import counted_syncs, make_finished, make_unfinished, row_blocks
from benchmarks.store.random_rows import ROW_VALUES, Way, read_tasks
from benchmarks.store.tables import open_table, read_tables, write_table
from benchmarks.vcf.tables import Setting
from genolewm_assets.store import ArrayStoreReader
from genolewm_assets.store.arrays.report import inspect_cache

ROWS = 600


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured") / "stores" / str(ROW_VALUES)
    make_unfinished(folder / "unfinished", ROWS, ROW_VALUES)
    make_finished(folder / "finished", folder / "unfinished", ROW_VALUES)
    return folder / "finished"


def test_the_stores_that_are_measured_hold_all_rows(store: Path) -> None:
    unfinished, reader = inspect_cache(store.with_name("unfinished")), ArrayStoreReader(store)
    assert (unfinished.complete, unfinished.rows, reader.n_rows) == (False, ROWS, ROWS)
    assert reader.verify() == []
    rows = np.concatenate(list(row_blocks(ROWS, ROW_VALUES)))
    assert np.array_equal(reader.get_rows(np.arange(ROWS)), rows)
    keys = reader.keys()
    assert (len(set(keys)), set(map(len, keys))) == (ROWS, {64})


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


def test_a_plain_file_is_synced_as_often_as_the_store(store: Path, tmp_path: Path) -> None:
    out, name = tmp_path / "out", "commits of 1,024 rows"
    tasks = store_jobs.write_tasks(store, out)
    found = []
    for task in (store_jobs.PLAIN, name, f"{store_jobs.PLAIN}/{name}"):
        shutil.rmtree(out)
        with counted_syncs() as counts:
            said = tasks[task]()
        assert said == sum(counts.values())
        found.append(said)
        assert sum(path.stat().st_size for path in out.iterdir()) >= ROWS * ROW_VALUES * 2
    assert found[0] == 1 < found[1] == found[2]


@pytest.mark.slow
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
