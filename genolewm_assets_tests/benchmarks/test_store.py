"""What is measured of array stores, instrument files and steps is the work that it is said to be."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.forensic import inputs, jobs, tables
from benchmarks.steps.window_inputs import SOURCE, write_catalog
from benchmarks.steps.window_memory import measure_step, step_row
from benchmarks.store import jobs as store_jobs
from benchmarks.store import peers as store_peers
from benchmarks.store.array_stores import counted_syncs, make_finished, make_unfinished, row_blocks
from benchmarks.store.random_rows import ROW_VALUES, Way, read_tasks
from benchmarks.store.tables import open_table, read_tables, write_table
from benchmarks.vcf.tables import Setting
from benchmarks.workers import Figures, Job
from genolewm_assets.forensic import HIDDataset
from genolewm_assets.genome import Contig
from genolewm_assets.sources.catalog import load_catalog
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


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which simulated runs are measured, few of them."""
    monkeypatch.setattr(inputs, "REAL", tmp_path / "absent")
    inputs.find_runs(tmp_path, samples=2)
    monkeypatch.setattr(jobs, "REPEATS", 1)
    monkeypatch.setattr(jobs, "ITEMS", 5)
    return tmp_path


def test_every_task_handles_what_it_says(folder: Path) -> None:
    runs = inputs.find_runs(folder)
    assert (runs.kind, len(runs.paths)) == ("simulated", 4)
    assert isinstance(runs.open(folder / "caches"), HIDDataset)
    tasks = jobs.make_tasks(folder)
    assert tasks.keys() == tables._FILES.keys() | tables._ITEMS.keys()
    assert {name: task() for name, task in tasks.items()} == {
        "parse": 4, "ladder": 1, "calls": 2, "profile_raw": 2, "profile_superior": 2,
        "item": 5, "item_memory": 5, "item_arrays": 5, "open": 2,
    }  # fmt: skip


def test_the_tables_name_all_jobs_and_missing_peers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(measured_jobs: list[Job], *, runs: int) -> list[Figures]:
        return [
            Figures(job.name, wall=[2.0] * runs, cpu=[1.0] * runs, records=1_000, failure=job.unavailable)
            for job in measured_jobs
        ]

    monkeypatch.setattr(tables, "measure", measured)
    lines = list(tables.forensic_tables(Setting(folder, None, runs=3, keep=False)))
    figures = {line.split(" | ")[0].removeprefix("| "): line for line in lines if line.startswith("| ")}
    assert figures["a file parsed"] == "| a file parsed | 1.00 | 1.00 to 1.00 | 1,000 |"
    assert figures["an item, from the files of the cache"].endswith("| 1000.0 | 1000.0 to 1000.0 |")
    names = [*tables._FILES.values(), *tables._ITEMS.values(), "a file parsed by biopython, without its traces"]
    assert all(name in figures and "not measured" not in figures[name] for name in names)
    assert "not measured: no environment of the peers" in figures["a file parsed by dnanet"]


CONTIG = Contig("chr1", 24_000_000)
#: Bytes that a step may take per base of its contig, above its imports; most of them are taken at any size.
BYTES_PER_BASE = 10


def test_windows_of_a_contig_take_memory_by_the_piece(tmp_path: Path) -> None:
    catalog = write_catalog(tmp_path, CONTIG, records=0)
    assert not measure_step(catalog, tmp_path / "root", "reference/genome", None, runs=0).failure
    figures = measure_step(catalog, tmp_path / "root", "windows/index", CONTIG.name, runs=0)
    assert not figures.failure
    assert figures.peak_bytes - figures.loaded_bytes < BYTES_PER_BASE * CONTIG.length


def test_the_catalogue_can_be_read_and_names_transcripts(tmp_path: Path) -> None:
    catalog = load_catalog(str(write_catalog(tmp_path, Contig("chr1", 600_000), records=10)))
    assert [contig.length for contig in catalog.contigs] == [600_000]
    with pq.ParquetFile(
        catalog.resolve_url(catalog.corpus.sources[SOURCE].url, root=tmp_path) + "/part-00000.parquet"
    ) as file:
        assert (file.metadata.num_rows, file.num_row_groups) == (10, 1)
        assert all(13_000 <= len(text) + 1 <= 20_000 for text in file.read()["text"].to_pylist())


def test_a_step_that_fails_is_said_to_have_failed(tmp_path: Path) -> None:
    figures = measure_step(tmp_path / "absent.yaml", tmp_path / "root", "windows/index", "chr1", runs=0)
    assert "failed" in step_row(figures, "nothing")
