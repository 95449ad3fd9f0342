"""The commands of Slurm as argument vectors: submit, look, find, cancel. What is no answer is never taken for one."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from genolewm_assets.defs.engines.slurm.job_states import JobView, parse_job
from genolewm_assets.errors import ConfigurationError, DeviceError

#: Seconds that a command may take; of itself ``scontrol`` waits as long for a controller that does not answer.
_COMMAND_S = 60.0

#: What ``sbatch`` says when it will never take a job as it is. Everything else may pass, such as limits of an account.
#: So may an invalid credential: clocks that differ, or a MUNGE that is being restarted.
_REFUSED = re.compile(
    r"\binvalid\b(?! (?:authentication )?credential)|unrecognized|ambiguous|not available"
    r"|permission denied|no such file",
    re.IGNORECASE,
)

#: What ``scontrol`` says of a job that it does not know.
_UNKNOWN_JOB = "Invalid job id specified"


class NoAnswerError(DeviceError):
    """Slurm gave no answer, or none that can be read; a later one may do."""


def submit(options: Sequence[str], script: Path, command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Submit a batch script and return the number of the job; :class:`NoAnswerError` if there may be a job or not."""
    # With names in place of ALL, Slurm would run the login shell of the user on the node, which a service has none of.
    arguments = ["--parsable", *options, "--export=ALL", str(script), *command]
    done = _run("sbatch", arguments, {**_own("SLURM_CONF", "PATH"), **environment})
    if done.returncode == 0 and (found := re.fullmatch(r"([1-9][0-9]*)(;\S+)?", done.stdout.strip())):
        return int(found[1])
    said = _said(done)
    if done.returncode != 0 and _REFUSED.search(said):
        raise ConfigurationError(
            "sbatch",
            f"Slurm refuses the job ({said})",
            got=" ".join(options),
            remedy="Compare GENOLEWM_SLURM_PARTITION and GENOLEWM_GPU_PRODUCT with 'sinfo -o \"%P %G\"'",
        )
    raise NoAnswerError("sbatch", "no job was submitted for sure", got=said)


def look(job_id: int, name: str) -> JobView | None:
    """Return a job; None if Slurm knows none of this number and name."""
    done = _run("scontrol", ["show", "job", "--oneliner", str(job_id)])
    if done.returncode != 0 and _UNKNOWN_JOB in done.stderr:
        return None
    view = parse_job(done.stdout) if done.returncode == 0 else None
    if view is None or view.job_id != job_id:
        raise NoAnswerError(f"job {job_id}", "scontrol gave no answer that can be read", got=_said(done))
    # A controller that lost its state counts from 1 again.
    return view if view.name == name else None


def find(name: str, comment: str) -> list[int]:
    """Return own jobs by name and comment; raises :class:`NoAnswerError`."""
    done = _run("squeue", ["--me", "--noheader", f"--name={name}", "--format=%A|%k"])
    if done.returncode != 0:
        raise NoAnswerError("squeue", "gave no answer", got=_said(done))
    rows = (line.strip().partition("|") for line in done.stdout.splitlines())
    return [int(number) for number, _, text in rows if text == comment and number.isdecimal()]


def cancel(job_id: int) -> None:
    """Ask Slurm to end a job: SIGTERM, and SIGKILL after its ``KillWait``. Whether it ended, :func:`look` tells."""
    _run("scancel", [str(job_id)])


def _own(*names: str) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}


def _run(
    program: str, arguments: Sequence[str], environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command; by default without most of this process's environment, in which Slurm's variables are options."""
    try:
        return subprocess.run(  # noqa: S603
            [program, *arguments],
            env=environment or _own("SLURM_CONF", "PATH"),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMMAND_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as err:
        # A client that is being exchanged must not keep a job that exists from being followed, or cancelled.
        if program == "sbatch" and isinstance(err, FileNotFoundError):
            raise ConfigurationError(program, "is not installed here", remedy="Install the client of Slurm") from err
        raise NoAnswerError(program, "could not be run to its end", got=str(err)) from err


def _said(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a command printed, in one line of at most 400 characters."""
    text = " ".join(f"{done.stderr} {done.stdout}".split()) or f"nothing, with exit status {done.returncode}"
    return text if len(text) <= 400 else f"{text[:399]}…"
