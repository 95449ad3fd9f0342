"""What is measured of the stream of tuples is the work that its tables name, and every job is measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.stream import jobs as stream_jobs
from benchmarks.stream.jobs import RELEASE
from benchmarks.stream.size_jobs import NAME, TEST, VALIDATION, write
from benchmarks.stream.size_tables import run_part, size_tables
from benchmarks.stream.tables import make_folder, rate_table
from benchmarks.vcf.tables import Setting
from genolewm_assets.genome import Split
from genolewm_assets.packages import open_tables

SHRINK, HELD = 200, 500


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the inputs of all jobs but those of size."""
    made = tmp_path_factory.mktemp("measured") / "stream"
    make_folder(made, shrink=SHRINK)
    return made


def test_a_task_reads_an_epoch_and_then_the_next(folder: Path) -> None:
    seen: list[np.ndarray] = []
    dataset = stream_jobs.open_dataset(folder, with_states=False)
    task = stream_jobs._epoch(dataset, lambda batch: seen.append(batch.edits.locus_bp))
    assert task() == task() == sum(map(len, seen)) // 2
    assert len(seen) == 2 * dataset.n_batches
    assert not np.array_equal(seen[0], seen[dataset.n_batches])


def test_the_table_of_rates_shows_every_job_and_ratios(folder: Path) -> None:
    lines = list(rate_table(folder, Setting(folder, None, 1, keep=True)))
    rows = [line for line in lines if line.startswith("| ")]
    assert {line.count("|") for line in rows} == {8}
    assert [line.split(" | ")[0] for line in rows if "not measured" in line] == [
        "| GenVarLoader, haplotypes of 12,288 bp",
        "| geno-lewm, its own tuples, no states",
    ]
    # Without peers there are no ratios to them, and only the copies have none to a copy.
    ratios = [[cell.strip() for cell in line.split("|")[5:8]] for line in rows[1:9]]
    assert {tuple(row[:2]) for row in ratios} == {("", "")}
    assert [bool(row[2]) for row in ratios] == [True] * 5 + [False] * 3
    assert float(lines[-2].split("none: ")[1].split()[0]) > 0
    assert "GenVarLoader: not measured" in lines[-1]


def test_the_tables_of_a_small_package_show_writing_opening_and_sizes(tmp_path: Path) -> None:
    setting = Setting(tmp_path, None, 1, keep=True)
    lines = [line for line in size_tables(setting, shrink=30_000) if line.startswith("| ")]
    assert not [line for line in lines if "failed" in line]
    (made,) = tmp_path.glob("size_*")
    written = next(line for line in lines if line.startswith("| packages/split"))
    package = open_tables(made / "root/packages" / RELEASE / NAME, allow_unaudited=True)
    windows = {split: package.windows(split, ["contig"])["contig"].unique().to_pylist() for split in Split}
    assert windows[Split.VALIDATION] == list(VALIDATION)
    assert windows[Split.TEST] == list(TEST)
    assert not {*VALIDATION, *TEST} & set(windows[Split.TRAIN])
    assert f"| {sum(split.windows for split in package.info.splits.values()):,} |" in written
    shown = [[cell.strip() for cell in line.split("|")][4:6] for line in lines if line.count("|") == 9]
    assert [name for _, name in shown if name == "worker"] == ["worker", "worker"]
    rates = [int(rate.replace(",", "")) for rate, _ in shown if rate.replace(",", "").isdigit()]
    assert rates
    assert min(rates) > 0


def test_a_part_that_fails_is_said_to_have_failed(tmp_path: Path) -> None:
    figures, failure = run_part("process", tmp_path / "absent")
    assert figures == {}
    assert "absent" in failure
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "absent")
