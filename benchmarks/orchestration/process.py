"""One measured process: ``python -m benchmarks.orchestration.process PART CATALOG ROOT``; prints lines of JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.orchestration.pages import time_pages
from benchmarks.stopwatch import cpu_seconds, status_bytes
from genolewm_assets.launch import enter_environment

if TYPE_CHECKING:
    import dagster as dg

#: Pieces that are built one after the other.
_BUILT = 5


def main() -> None:
    part, catalog, root = sys.argv[1:]
    enter_environment(Path(root), catalog)
    parts: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
        "record": _record,
        "load": _load,
        "ticks": _ticks,
        "partition": _partition,
        "pages": lambda: time_pages(Path(root), Path(catalog)),
    }
    for figures in parts[part]():
        print(json.dumps(figures), flush=True)


def _record() -> Iterator[dict[str, Any]]:
    from benchmarks.orchestration.history import record_history
    from genolewm_assets.defs.operations.demo import open_instance

    with open_instance() as instance:
        yield _figures("recording (not a cost of the product)", lambda: record_history(instance))


def _load() -> Iterator[dict[str, Any]]:
    def load() -> None:
        from genolewm_assets.definitions import defs

        defs.get_repository_def().get_all_jobs()

    yield _figures("definitions, new process", load)


def _ticks() -> Iterator[dict[str, Any]]:
    from benchmarks.orchestration.history import record_partition
    from genolewm_assets.definitions import defs
    from genolewm_assets.defs.assets import GATED
    from genolewm_assets.defs.operations.demo import open_instance
    from genolewm_assets.defs.runtime import cpu_automation_sensor

    sensors = sorted(defs.get_repository_def().sensor_defs, key=lambda each: each.name)
    with open_instance() as instance:
        cursors = dict.fromkeys(sensors)
        for sensor in sensors:
            for number in range(1, 6):
                figures, cursors[sensor] = _tick(instance, sensor, cursors[sensor], f"tick {number}")
                yield figures
        record_partition(instance, GATED["reference/genome"], None)
        for number in range(1, 5):
            what = f"tick {number} after a new version of the genome"
            figures, cursors[cpu_automation_sensor] = _tick(
                instance, cpu_automation_sensor, cursors[cpu_automation_sensor], what
            )
            yield figures


def _tick(
    instance: dg.DagsterInstance, sensor: dg.SensorDefinition, cursor: str | None, what: str
) -> tuple[dict[str, Any], str | None]:
    """Evaluate a sensor; return the figures and the cursor of the next tick."""
    import dagster as dg

    from genolewm_assets.definitions import defs
    from genolewm_assets.defs.runtime import configured_resources

    repository, found = defs.get_repository_def(), []

    def evaluate() -> None:
        context = dg.build_sensor_context(instance, cursor, repository_def=repository, resources=configured_resources())
        found.append(sensor.evaluate_tick(context))

    figures = _figures(f"{sensor.name}, {what}", evaluate)
    said = f"{len(found[0].run_requests or ())} requested; {found[0].skip_message or ''}"
    return figures | {"said": f"{said}; cursor {len(found[0].cursor or '') / 1e3:.1f} kB"}, found[0].cursor


def _partition() -> Iterator[dict[str, Any]]:
    from benchmarks.orchestration.runs import launched_runs

    yield from launched_runs(_BUILT)


def _figures(name: str, work: Callable[[], object]) -> dict[str, Any]:
    used, started = cpu_seconds(), time.perf_counter()
    work()
    wall, cpu = time.perf_counter() - started, cpu_seconds() - used
    return {"name": name, "cpu_s": round(cpu, 3), "wall_s": round(wall, 3), "mib": status_bytes("VmHWM") >> 20}


if __name__ == "__main__":
    main()
