"""Runs of small partitions as the daemon launches them, and what each adds to Dagster's databases."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget

from benchmarks.orchestration.inputs import BUILT, PIECES
from genolewm_assets.definitions import defs
from genolewm_assets.defs.instance import CODE_LOCATION
from genolewm_assets.defs.operations.demo import open_instance
from genolewm_assets.windows.corpus import piece_keys

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
#: Seconds after the end of a run until its process has ended.
_ENDED_S = 3.0


def launched_runs(number: int) -> Iterator[dict[str, Any]]:
    """Build what pieces are made from, then pieces, each in a run; yield the cost of each."""
    home = Path(os.environ["DAGSTER_HOME"])
    pieces = piece_keys(BUILT, PIECES[BUILT])[:number]
    steps = [("reference/genome", None), ("corpus/records", BUILT), *(("corpus/windows", piece) for piece in pieces)]
    target = ModuleTarget(CODE_LOCATION, None, None, CODE_LOCATION)
    with open_instance() as instance, WorkspaceProcessContext(instance, target) as process:
        for asset, partition in steps:
            size, cpu, started = _size(home), _cpu_of_children(), time.perf_counter()
            status = _launch(instance, process, asset, partition)
            wall = time.perf_counter() - started
            time.sleep(_ENDED_S)
            spent, added = _cpu_of_children() - cpu, _size(home) - size
            name = asset if partition is None else f"{asset}[{partition}]"
            yield {
                "name": name,
                "cpu_s": round(spent, 2),
                "wall_s": round(wall, 2),
                "kb": round(added / 1e3, 1),
                "said": status,
            }


def _launch(instance: dg.DagsterInstance, process: WorkspaceProcessContext, asset: str, partition: str | None) -> str:
    selection = frozenset({dg.AssetKey(asset.split("/"))})
    job = defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection=selection)
    tags = {} if partition is None else {"dagster/partition": partition}
    run = instance.create_run_for_job(job, tags=tags, asset_selection=selection)
    instance.launch_run(run.run_id, process.create_request_context())
    while not (found := instance.get_run_by_id(run.run_id)) or not found.is_finished:
        time.sleep(0.05)
    return found.status.value


def _size(home: Path) -> int:
    """Return the bytes of the event log: of its index and of the database of each run."""
    return sum(path.stat().st_size for path in (home / "history/runs").iterdir())


def _cpu_of_children() -> float:
    """Return the CPU seconds of the processes that this one started, and of their ended children."""
    total, ours = 0.0, {os.getpid()}
    found = {int(path.name): path for path in Path("/proc").iterdir() if path.name.isdecimal()}
    for pid in sorted(found):
        try:
            fields = (found[pid] / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) in ours:
            ours.add(pid)
            total += sum(map(int, fields[11:15])) / _TICKS_PER_S
    return total
