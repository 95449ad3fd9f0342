"""The simulated run on disk, and what the pipeline makes of a folder."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from genolewm_assets.forensic import MemmapCacheReader, Panel, read_panel
from genolewm_assets.forensic.runs.build import RunReport, write_profiles
from genolewm_assets.forensic.runs.checks import check_run
from genolewm_assets.forensic.runs.rules import RunFile, RunRules
from genolewm_assets.sample.forensic.run import SimulatedRun, simulate_run
from genolewm_assets.store.artefacts.check_result import CheckResult

#: Rules that fit the simulated run, whose scans are fewer than those of a real one.
RULES = RunRules(n_scanpoints=3_072)
NAME = "run"


@functools.cache
def simulated() -> SimulatedRun:
    return simulate_run()


def write_run(folder: Path) -> tuple[Path, list[Path]]:
    """Write the simulated run into ``folder/runs/run``; return that folder and the kit's files."""
    run = folder / "runs" / NAME
    for parent, files in ((run, simulated().files), (folder / "kit", simulated().kit_files)):
        parent.mkdir(parents=True)
        for name, data in files.items():
            (parent / name).write_bytes(data)
    return run, [folder / "kit" / name for name in simulated().kit_files]


def files_of(run: Path) -> list[RunFile]:
    paths = sorted(path for path in run.rglob("*") if path.is_file())
    return [
        RunFile(path.relative_to(run).as_posix(), path, hashlib.sha256(path.read_bytes()).hexdigest()) for path in paths
    ]


@dataclass(frozen=True)
class BuiltRun:
    """What was made of a run folder."""

    directory: Path
    report: RunReport
    checks: Mapping[str, CheckResult]

    @property
    def files(self) -> dict[str, dict[str, Any]]:
        return {row["file"]: row for row in pq.read_table(self.directory / "files.parquet").to_pylist()}

    @property
    def failed(self) -> set[str]:
        return {name for name, check in self.checks.items() if not check.passed}

    @property
    def store(self) -> MemmapCacheReader:
        return MemmapCacheReader(self.directory)

    def alleles(self, file: str) -> dict[str, Any]:
        found = self.store.alleles(self.store.load_index()[self.files[file]["row"]].allele_key)
        assert isinstance(found, dict)
        return found


def build_run(
    run: Path, panels: list[Path] | Panel, out: Path, *, rules: RunRules = RULES, panel_name: str | None = None
) -> BuiltRun:
    panel = panels if isinstance(panels, Panel) else read_panel(*panels, panel_name=panel_name)
    files = files_of(run)
    out.mkdir(parents=True)
    report = write_profiles(NAME, files, panel, out, rules=rules, config=rules.as_recipe(), sources={})
    checks = check_run(out, NAME, {file.name: file.path for file in files}, panel, rules)
    return BuiltRun(out, report, {check.name: check for check in checks})


def bytes_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def everything_said(built: BuiltRun) -> str:
    """Return all that a manifest and pages would state of a run: counts, and figures and rows of checks."""
    return json.dumps([dict(built.report.counts), [[c.figures, c.rows] for c in built.checks.values()]], default=dict)
