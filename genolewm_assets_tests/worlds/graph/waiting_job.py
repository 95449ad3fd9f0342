"""A code location with one job, whose runs say their process and end when a file appears."""

import os
import time
from pathlib import Path

import dagster as dg


@dg.op(config_schema={"folder": str})
def waits(context: dg.OpExecutionContext) -> None:
    folder = Path(context.op_config["folder"])
    (folder / context.run_id).write_text(f"{os.getpid()} {os.getppid()}")
    while not (folder / "end").exists():
        time.sleep(0.05)


@dg.job
def waiting() -> None:
    waits()


defs = dg.Definitions(jobs=[waiting], executor=dg.in_process_executor)
