"""Slurm as a test tells it: its commands are programs that answer what they are to, and time passes in sleep."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from genolewm_assets.defs.engines.slurm.pipes_client import PipesSlurmClient
from genolewm_assets.defs.engines.slurm.settings import SlurmSettings
from genolewm_assets_tests.defs.engines.slurm.test_job_states import shown

_PROGRAM = """#!/bin/sh
cd "${0%/*}" && name=${0##*/}
printf '%s\\n' "$*" >>"$name.calls"
/usr/bin/env >"$name.env"
/bin/cat "$name.err" >&2
/bin/cat "$name.out"
exit "$(/bin/cat "$name.rc")"
"""

Step = Callable[[], None]


@dataclass
class Cluster:
    """Slurm as a test tells it, and the job that it pretends to run."""

    folder: Path
    job: Path
    now: float = 0.0
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("sbatch", "scontrol", "scancel", "squeue"):
            path = self.folder / name
            path.write_text(_PROGRAM)
            path.chmod(0o755)
            self.answer(name)
        self.answer("sbatch", "7\n")
        self.says("PENDING", reason="Resources")

    def answer(self, name: str, out: str = "", err: str = "", status: int = 0) -> None:
        for suffix, text in (("out", out), ("err", err), ("rc", str(status))):
            (self.folder / f"{name}.{suffix}").write_text(text)

    def says(self, state: str, exit_code: str = "0:0", **fields: Any) -> None:
        self.answer("scontrol", shown(state, exit_code, **fields))

    def obeys(self, exit_code: str = "0:0", *, asked: int = 1, **fields: Any) -> None:
        """Say that the job is cancelled once that was asked for so often."""
        if len(self.calls("scancel")) >= asked:
            self.says("CANCELLED", exit_code, **fields)

    def calls(self, name: str) -> list[str]:
        path = self.folder / f"{name}.calls"
        return path.read_text().splitlines() if path.exists() else []

    def tells(self, method: str, **params: Any) -> None:
        message = {"__dagster_pipes_version": "0.1", "method": method, "params": params}
        self.writes(json.dumps(message) + "\n")

    def writes(self, text: str) -> None:
        with (self.job / "messages.jsonl").open("a") as file:
            file.write(text)

    def prints(self, text: str) -> None:
        with (self.job / "output.log").open("a") as file:
            file.write(text)

    def finishes(self) -> None:
        self.tells("opened", extras={})
        self.tells("report_custom_message", payload={"outcome": "built"})
        self.tells("closed")

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.steps:
            self.steps.pop(0)()
        assert self.now < 10_000, "the client never ends"

    def run(self, *steps: Step, pending_s: float = 100.0, silence_s: float = 50.0) -> tuple[list[object], list[str]]:
        """Run a job while the steps happen, one at each sleep; return what it told and the lines of the run's log."""
        self.steps = list(steps)
        settings = SlurmSettings(("--gres=gpu:h100:1",), {"GENOLEWM_ROOT": "/srv/genolewm"}, pending_s, silence_s)
        told: list[object] = []

        @dg.asset(name="step")
        def step(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
            client = PipesSlurmClient(settings, clock=lambda: self.now, sleep=self.sleep)
            done = client.run(context=context, command=["true"], name="job", comment="run=1", folder=self.job)
            told.extend(done.get_custom_messages())
            return dg.MaterializeResult()

        with dg.DagsterInstance.ephemeral() as instance:
            try:
                dg.materialize([step], instance=instance)
            finally:
                (run,) = instance.get_runs()
                self.log = [entry.user_message for entry in instance.all_logs(run.run_id)]
        return told, self.log
