"""Why a step or a run failed, in one line, and the states of runs: which have ended, which the queue keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dagster as dg

from genolewm_assets.errors import MissingResourceError, printable

ENDED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
UNFINISHED = tuple(status for status in dg.DagsterRunStatus if status not in ENDED)
#: Not launched yet.
WAITING = (dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.QUEUED)

#: Tag of a queued run that waits to be released. A limit of 0 in ``dagster.yaml`` keeps it; a run that was created but
#: not queued would fail after the start timeout.
HELD_TAG = "genolewm/held"
#: Values of the tag: kept in the queue, let go, cancelled while it was kept.
HELD, RELEASED, NEVER_BEGAN = "true", "false", "never began"

#: Dagster's tag of a failed run: whether it tries again.
WILL_RETRY_TAG = "dagster/will_retry"

_LINE_LIMIT = 1_000

#: Exit codes of a failure that states its reason but no code, and of any other error.
_STATED, _UNFORESEEN = 4, 1


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something failed.

    Attributes
    ----------
    line
        One line of at most 1,000 characters. The text of a ``dg.Failure`` is kept as it is; other errors are preceded
        by their type.
    exit_code, kind
        Exit code of the command line for it, and name of the exception's class; empty if none is known.
    """

    line: str
    exit_code: int = _UNFORESEEN
    kind: str = ""


def reason_of(failure: BaseException | dg.DagsterEvent | None) -> Reason:
    """Return why a step failed, from its exception or from the event that records it."""
    if isinstance(failure, dg.DagsterEvent):
        return _recorded(failure)
    if isinstance(failure, dg.Failure) and failure.description:
        return _stated(failure.description, failure.metadata)
    return _error("", "") if failure is None else _error(type(failure).__name__, str(failure))


def failure_of(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Reason:
    """Return why a run did not succeed, by the first failed step, or else by the event that ended the run."""
    wanted = {dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.RUN_FAILURE}
    try:
        entries = instance.all_logs(run.run_id, of_type=wanted)
    except MissingResourceError:  # the history of the run was removed by hand
        entries = []
    events = [entry.dagster_event for entry in entries if entry.dagster_event]
    for event in sorted(events, key=lambda each: not each.is_step_failure):
        if event.is_step_failure or event.message:
            return reason_of(event)
    return Reason(f"the run ended as {run.status.value.lower()}")


def _recorded(event: dg.DagsterEvent) -> Reason:
    if not event.is_step_failure:
        return Reason(_one_line(event.message or "the run ended without an error"))
    data = event.step_failure_data
    if data.user_failure_data and data.user_failure_data.description:
        return _stated(data.user_failure_data.description, data.user_failure_data.metadata)
    error = data.error and (data.error.cause or data.error)
    if error is None:
        return _error("", "")
    # The message is the last line of a traceback, whose class is preceded by its module.
    kind, (head, _, text) = error.cls_name or "", error.message.strip().partition(":")
    known = kind and head.rpartition(".")[2] == kind
    return _error(kind, text if known else error.message)


def _stated(description: str, metadata: Mapping[str, Any]) -> Reason:
    code = getattr(metadata.get("exit_code"), "value", _STATED)
    return Reason(_one_line(description), code if isinstance(code, int) else _STATED, dg.Failure.__name__)


def _error(kind: str, text: str) -> Reason:
    line = _one_line(": ".join(part for part in (kind, text.strip()) if part))
    return Reason(line or "no error was recorded", _UNFORESEEN, kind)


def _one_line(text: str) -> str:
    line = printable(" ".join(text.split()))
    return line if len(line) <= _LINE_LIMIT else f"{line[: _LINE_LIMIT - 1]}…"


def is_held(run: dg.DagsterRun) -> bool:
    """Tell whether the queue keeps a run."""
    return run.tags.get(HELD_TAG) == HELD
