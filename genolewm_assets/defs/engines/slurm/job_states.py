"""What ``scontrol`` says of a job, and what each state of Slurm means: only one of them can be a success.

States are those of ``squeue(1)`` of Slurm 22.05 to 25.05, section "Job state codes".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """What a state means for whoever waits for the job."""

    PENDING = "pending"
    RUNNING = "running"
    ENDING = "ending"
    ENDED = "ended"
    FAILED = "failed"


#: Jobs are submitted with ``--no-requeue``: one that is requeued all the same would tell its story twice, and is over.
PHASES: Mapping[str, Phase] = {
    "PENDING": Phase.PENDING,
    "RESV_DEL_HOLD": Phase.PENDING,
    "CONFIGURING": Phase.PENDING,
    "POWER_UP_NODE": Phase.PENDING,
    "RUNNING": Phase.RUNNING,
    "EXPEDITING": Phase.RUNNING,
    "RESIZING": Phase.RUNNING,
    "SIGNALING": Phase.RUNNING,
    "STAGE_OUT": Phase.RUNNING,
    "STOPPED": Phase.RUNNING,
    "SUSPENDED": Phase.RUNNING,
    "COMPLETING": Phase.ENDING,
    "UPDATE_DB": Phase.ENDING,
    "COMPLETED": Phase.ENDED,
    "BOOT_FAIL": Phase.FAILED,
    "CANCELLED": Phase.FAILED,
    "DEADLINE": Phase.FAILED,
    "FAILED": Phase.FAILED,
    "LAUNCH_FAILED": Phase.FAILED,
    "NODE_FAIL": Phase.FAILED,
    "OUT_OF_MEMORY": Phase.FAILED,
    "PREEMPTED": Phase.FAILED,
    "RECONFIG_FAIL": Phase.FAILED,
    "REQUEUED": Phase.FAILED,
    "REQUEUE_FED": Phase.FAILED,
    "REQUEUE_HOLD": Phase.FAILED,
    "REVOKED": Phase.FAILED,
    "SPECIAL_EXIT": Phase.FAILED,
    "TIMEOUT": Phase.FAILED,
}

#: States of jobs that will run again unless somebody cancels them.
_REQUEUED = frozenset({"REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"})

#: Exit statuses of errors that say what is wrong (``errors.py``). Python itself ends with 1.
STATED = (2, 3, 4)

# Of the fields that a person can write, only the name of the job comes before the state, and it has no space (ours).
_JOB = re.compile(
    r"JobId=(?P<job_id>[0-9]+) (?:[\w/]+=\S* )*?JobName=(?P<name>\S+) UserId=\S+ .*?"
    r" JobState=(?P<state>\S+) Reason=(?P<reason>\S+) .*?"
    r" Restarts=(?P<restarts>[0-9]+) .*? ExitCode=(?P<exit_code>[0-9]+:[0-9]+) .*?"
    r" NodeList=(?P<nodes>\S*)"
)


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as ``scontrol`` shows it."""

    job_id: int
    name: str
    state: str
    #: Why a job waits or why it ended: ``Resources``, ``NodeDown``; ``None`` in Slurm's own spelling if there is none.
    reason: str
    #: Exit status and signal of the batch script, such as ``0:9``.
    exit_code: str
    #: Nodes of the job; ``(null)`` or empty before it has any.
    nodes: str
    restarts: int

    @property
    def phase(self) -> Phase:
        """The meaning of the state; a job that was restarted has failed."""
        return Phase.FAILED if self.restarts else PHASES[self.state]

    @property
    def is_over(self) -> bool:
        """Whether nothing of the job runs, or ever will."""
        return PHASES[self.state] in {Phase.ENDED, Phase.FAILED} and self.state not in _REQUEUED

    @property
    def succeeded(self) -> bool:
        """Whether the job completed, in its first life, with exit status 0 and without a signal."""
        return (self.phase, self.state, self.exit_code) == (Phase.ENDED, "COMPLETED", "0:0")

    @property
    def states_its_error(self) -> bool:
        """Whether the job ended itself with an exit status that goes with an error it tells."""
        return self.state == "FAILED" and self.exit_code in {f"{code}:0" for code in STATED}

    def __str__(self) -> str:
        restarted = f", restarted {self.restarts} times" if self.restarts else ""
        reason = "" if self.reason == "None" else f", reason {self.reason}"
        code, _, signal = self.exit_code.partition(":")
        ended = f", killed by signal {signal}" if signal != "0" else f", exit status {code}"
        shown = ended if self.phase in {Phase.ENDED, Phase.FAILED} else ""
        return f"{self.state}{reason}{shown}{restarted}"


def parse_job(text: str) -> JobView | None:
    """Return the job that ``scontrol show job --oneliner`` printed; None if that cannot be read as one known state."""
    lines = text.splitlines()
    found = _JOB.match(lines[0]) if len(lines) == 1 else None
    if found is None or found["state"] not in PHASES:
        return None
    return JobView(
        job_id=int(found["job_id"]),
        name=found["name"],
        state=found["state"],
        reason=found["reason"],
        exit_code=found["exit_code"],
        nodes=found["nodes"],
        restarts=int(found["restarts"]),
    )
