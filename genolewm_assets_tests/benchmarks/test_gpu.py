"""The kit for a card runs with the packages of a CUDA image, and says what failed, what is done, which aims hold."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from benchmarks.gpu import wheels
from benchmarks.gpu.part import PARTS
from benchmarks.gpu.report import read_results, report
from benchmarks.gpu.shapes import SHAPES
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.places import TESTS

turns = Late("benchmarks.gpu.turns")
ROOT = TESTS.parent
ABOUT = {
    "part": "about",
    "card": "A",
    "device": "cuda",
    "shape": "tiny",
    "date": "2026-01-01",
    "versions": {"torch": "2"},
}


def image_packages(folder: Path) -> None:
    """Link what a CUDA image has, and nothing else, into a folder."""
    folder.mkdir()
    waiting, seen = list(wheels.IMAGE), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        package = metadata.distribution(name)
        needs = [Requirement(each) for each in package.requires or ()]
        waiting += [each.name for each in needs if each.marker is None or each.marker.evaluate({"extra": ""})]
        for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            if not (folder / top).exists():
                (folder / top).symlink_to(Path(str(package.locate_file(top))))


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the interpreter of an environment with an image's packages, and a folder with the wheels' contents."""
    folder = tmp_path_factory.mktemp("bare")
    image_packages(folder / "image")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    python = folder / "venv/bin/python"
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "venv")}))
    (site / "image.pth").write_text(f"{folder / 'image'}\n")
    (folder / "wheels").mkdir()
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert wheels.collect(folder / "wheels", here) < 60 << 20
    command = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"),
        "--no-deps",
    ]
    found = sorted(map(str, (folder / "wheels").glob("*.whl")))
    subprocess.run([*command, "--target", str(folder / "site"), *found], check=True)
    return python, folder / "site"


def test_every_part_runs_with_the_packages_of_an_image(bare_python: tuple[Path, Path], tmp_path: Path) -> None:
    python, site = bare_python
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
        "PYTHONPATH": str(site)
    }

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(python), *arguments]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    absent = run("-c", "import dagster")
    assert "No module named 'dagster'" in absent.stderr
    options = [
        *("-m", "benchmarks", "gpu", "--shape", "smallest", "--minutes", "3", "--runs", "1", "--results"),
        str(tmp_path),
    ]
    first = run(*options)
    assert first.returncode == 0, first.stderr
    (records,) = tmp_path.glob("*.jsonl")
    results = read_results(records)
    assert {each["part"]: each["ended"] for each in results if "ended" in each} == dict.fromkeys(PARTS, "done")
    assert [each["name"] for each in results if "failure" in each] == ["encoder, bfloat16, inductor"]
    named = {each["name"]: each for each in results if "name" in each}
    assert "skipped" in named["tests marked gpu"]["said"]
    assert "failed" not in named["tests marked gpu"]["said"]
    for compute in ("bfloat16", "float32"):
        assert named[f"edits, from the first changed token, {compute}"]["full_path_reason"] is None
        assert named[f"cache of a contig, {compute}, checks"]["passed"]
    assert named["frozen epoch, bfloat16, checks"]["passed"]
    assert first.stdout.endswith(f"{report(results)}\n{records.with_suffix('.md')}\n")
    again = run(*options)
    assert "at most" not in again.stdout
    assert read_results(records) == results


def test_a_job_that_fails_leaves_the_others_their_time(tmp_path: Path) -> None:
    setting = turns.Setting(SHAPES["smallest"], "cpu", tmp_path, runs=2)
    calls = []

    def full() -> Any:
        raise Late("torch").OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nSee the documentation")

    def breaks_later() -> Any:
        def run() -> int:
            calls.append("run")
            if len(calls) == 2:
                raise RuntimeError("CUDA error: device-side assert")
            return 1

        return turns.Work(run)

    jobs = {"full": full, "later": breaks_later, "good": lambda: turns.Work(lambda: sum(range(10**5)) and 3)}
    found = list(turns.in_turns(setting, jobs))
    assert found[0] == ("full", {"failure": "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."})
    assert ("later", {"failure": "RuntimeError: CUDA error: device-side assert"}) in found
    last = dict(found)["good"]
    assert (last["items"], last["runs"]) == (3, 2)
    assert last["rate"] > 0
    assert len(calls) == 2


def test_the_table_says_which_aims_hold() -> None:
    products = 1e12
    windows = products / SHAPES["tiny"].window_flops(2_050)
    rates = {
        "bfloat16 products": products,
        "float32 products": products,
        "encoder, bfloat16": 0.5 * windows,
        "encoder, bfloat16, inductor": 0.61 * windows,
        "encoder, bfloat16, with writing": 0.47 * windows,
        "edits, whole windows, bfloat16": 100.0,
        "edits, from the first changed token, bfloat16": 401.0,
    }
    records: list[dict[str, Any]] = [ABOUT]
    records += [{"part": "x", "name": name, "rate": rate, "items": 1} for name, rate in rates.items()]
    records += [
        {"part": "x", "name": "encoder, float32", "failure": "OutOfMemoryError: a | b"},
        {"part": "x", "name": "null edit, bfloat16", "ratio": 0.03},
        {"part": "x", "name": "cache, checks", "passed": False, "failed": "precision_sufficient"},
        {"part": "frozen", "ended": "stopped after 9 s"},
    ]
    table = report(records)
    assert "**A, tiny, 2026-01-01** (torch 2); rates per wall-clock second" in table
    for line in (
        "| encoding at 60% of the rate of products, bfloat16 | 61% (encoder, bfloat16, inductor) | holds |",
        "| encoding at 60% of the rate of products, float32 | not measured | |",
        "| 95% of the bare rate: encoder, bfloat16, with writing | 94% | **not met** |",
        "| 4 times whole windows: edits, from the first changed token, bfloat16 | 4.01 | holds |",
        "| below 0.02: null edit, bfloat16 | 0.03 | **not met** |",
        "| passed: cache, checks | False | **not met** |",
        "| encoder, float32 | OutOfMemoryError: a / b | | | | | | |",
        "| part frozen | stopped after 9 s | | | | | | |",
    ):
        assert line in table.splitlines()
