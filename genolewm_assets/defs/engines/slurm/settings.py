"""Settings of Slurm jobs from environment variables, checked, as options of ``sbatch``."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from genolewm_assets.defs.engines import card_type, check_places
from genolewm_assets.errors import ConfigurationError

#: Three days, less than a run may take (``max_runtime_seconds``), and ten minutes.
_PENDING_S, _SILENCE_S = 259_200, 600

#: Options of ``sbatch`` with a setting of their own.
_OWN: Mapping[str, str] = {
    "partition": "GENOLEWM_SLURM_PARTITION",
    "account": "GENOLEWM_SLURM_ACCOUNT",
    "qos": "GENOLEWM_SLURM_QOS",
    "time": "GENOLEWM_SLURM_TIME",
}

#: Options that a job has from us, or that would make something else of it than one batch job.
_RESERVED = frozenset(
    {
        *(
            "array",
            "batch",
            "chdir",
            "clusters",
            "comment",
            "dependency",
            "error",
            "export",
            "export-file",
            "get-user-env",
        ),
        *("gid", "help", "hold", "input", "job-name", "kill-on-invalid-dep", "nodes", "no-requeue", "ntasks"),
        *(
            "open-mode",
            "output",
            "parsable",
            "quiet",
            "requeue",
            "test-only",
            "uid",
            "usage",
            "version",
            "wait",
            "wrap",
        ),
    }
)

#: Settings of a build, and what a Python process needs. No password is among them: a job needs no database.
_FORWARDED = (
    *("GENOLEWM_ROOT", "GENOLEWM_CATALOG", "GENOLEWM_GPU_PRODUCT", "GENOLEWM_DEVICE", "GENOLEWM_BATCH_WINDOWS"),
    *("GENOLEWM_COMPUTE", "GENOLEWM_HASHED", "GENOLEWM_COMPILER", "DAGSTER_DISABLE_TELEMETRY", "DO_NOT_TRACK"),
    *("GENOLEWM_WITHOUT_STATES", "HF_HUB_DISABLE_TELEMETRY"),
    *("HOME", "LANG", "LC_ALL", "PATH", "PYTHONPATH", "PYTHONSAFEPATH", "PYTHONUNBUFFERED", "USER"),
)


@dataclass(frozen=True, slots=True)
class SlurmSettings:
    """How builds become jobs."""

    #: Options of ``sbatch``: those of a person first, then the card.
    options: tuple[str, ...]
    #: Environment of a job: what it takes from the step that submits it, and nothing else.
    environment: Mapping[str, str]
    #: Seconds that a job may wait before it is cancelled.
    pending_s: float
    #: Seconds without a usable answer of Slurm after which a job is given up.
    silence_s: float


def read_settings() -> SlurmSettings:
    """Return the settings of this process's environment.

    Raises
    ------
    ConfigurationError
        If a setting is malformed, an option is reserved, or the root or catalogue is not a path for every node.
    """
    check_places()
    named = [f"--{name}={value}" for name, variable in _OWN.items() if (value := _word(variable))]
    gres = _word("GENOLEWM_SLURM_GRES") or f"gpu:{card_type().lower()}:1"
    return SlurmSettings(
        options=(*_further_options(), *named, f"--gres={gres}"),
        environment={name: os.environ[name] for name in (*_FORWARDED, *_further_variables()) if name in os.environ},
        pending_s=_seconds("GENOLEWM_SLURM_PENDING_S", _PENDING_S),
        silence_s=_seconds("GENOLEWM_SLURM_SILENCE_S", _SILENCE_S),
    )


def _word(name: str) -> str:
    value = os.environ.get(name, "")
    if value and not re.fullmatch(r"[\w.,:@/+-]+", value):
        raise ConfigurationError(name, "not a word of Slurm", expected="such as h100", got=repr(value))
    return value


def _seconds(name: str, default: int) -> float:
    value = os.environ.get(name) or str(default)
    if not (value.isascii() and value.isdecimal() and int(value)):
        raise ConfigurationError(name, "not a number of seconds", expected="at least 1", got=repr(value))
    return float(value)


def _further_options() -> list[str]:
    """Return ``GENOLEWM_SLURM_OPTIONS``; ``sbatch`` takes any beginning of an option's name for the option."""
    where, text = "GENOLEWM_SLURM_OPTIONS", os.environ.get("GENOLEWM_SLURM_OPTIONS", "")
    try:
        options = shlex.split(text)
    except ValueError as err:
        raise ConfigurationError(where, f"cannot be split into options ({err})", got=repr(text)) from err
    for option in options:
        name = re.fullmatch(r"--([a-z][a-z-]*)(=.+)?", option)
        if name is None:
            raise ConfigurationError(
                where, "not an option of sbatch", expected="such as --cpus-per-task=8 --mem=64G", got=repr(option)
            )
        if any(reserved.startswith(name[1]) for reserved in _RESERVED):
            raise ConfigurationError(where, "the option is not for this setting", got=repr(option))
    return options


def _further_variables() -> list[str]:
    where = "GENOLEWM_SLURM_VARIABLES"
    names = os.environ.get(where, "").split()
    for name in names:
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or name in {"ALL", "NONE", "NIL"}:
            raise ConfigurationError(where, "not the name of a variable", expected="such as HF_HOME", got=repr(name))
    return names
