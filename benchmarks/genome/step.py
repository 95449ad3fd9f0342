"""One step of the graph in this process: ``python -m benchmarks.genome.step CATALOG ROOT [ASSET [PARTITION]]``.

Without an asset it prints the steps of the graph. With one it says that it is ready, waits for a line of standard
input, runs the step as a job does, and prints its figures as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from benchmarks.genome.stub import HashedBytes, install_encoder, keep_fonts
from benchmarks.stopwatch import cpu_seconds
from genolewm_assets.launch import enter_environment


def main() -> None:
    catalog, root, *step = sys.argv[1:]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    enter_environment(Path(root), catalog)
    hashed = HashedBytes()
    hashed.install()
    import dagster as dg
    import mappy  # noqa: F401 - imports are not part of what a step takes
    import matplotlib.figure  # noqa: F401
    import numba  # noqa: F401
    import pyarrow.dataset  # noqa: F401
    import pysam  # noqa: F401

    from genolewm_assets.definitions import defs
    from genolewm_assets.defs.assets import packages_current, platform_status
    from genolewm_assets.defs.operations.demo import QUIET, Demo, open_instance

    install_encoder()
    keep_fonts()
    if not step:
        with Demo(defs) as demo:
            steps = [(asset.key, partition) for asset, partition in demo.steps()]
        print(json.dumps([*steps, (packages_current.key, None), (platform_status.key, None)]), file=answers)
        return
    asset, partition = step[0], next(iter(step[1:]), None)
    job = defs.resolve_implicit_global_asset_job_def()
    instance = open_instance()
    print("ready", file=answers, flush=True)
    sys.stdin.readline()
    hashed.total = 0
    before, used, started = _bytes_moved(), cpu_seconds(), time.perf_counter()
    result = job.execute_in_process(
        instance=instance,
        partition_key=partition,
        asset_selection=[dg.AssetKey(asset.split("/"))],
        run_config=QUIET,
        raise_on_error=False,
    )
    wall, cpu = time.perf_counter() - started, cpu_seconds() - used
    read, written = (after - then for after, then in zip(_bytes_moved(), before, strict=True))
    failed = [f"{event.step_failure_data.error}" for event in result.all_events if event.is_step_failure]
    figures = {"cpu_s": cpu, "wall_s": wall, "read": read, "written": written, "hashed": hashed.total}
    print(json.dumps(figures | ({} if result.success else {"failed": failed or ["the run failed"]})), file=answers)


def _bytes_moved() -> tuple[int, int]:
    """Return the bytes that this process has read and written by system calls."""
    stated = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(stated["rchar"]), int(stated["wchar"])


if __name__ == "__main__":
    main()
