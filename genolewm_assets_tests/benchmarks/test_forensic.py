"""What is measured of instrument files is the work that it is said to be."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.forensic import inputs, jobs, tables
from benchmarks.vcf.tables import Setting
from benchmarks.workers import Figures, Job
from genolewm_assets.forensic import HIDDataset


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
