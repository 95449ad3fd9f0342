"""``report_failure``: what is said, and to whom, when a step fails.

One line goes to the run's log. Where ``GENOLEWM_WEBHOOK_URL`` is set, a small JSON goes there by POST; whatever becomes
of that, the run ends as it would have, at most :data:`TIMEOUT_S` later.
"""

from __future__ import annotations

import json
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from typing import TypeAlias

import dagster as dg

WEBHOOK_VARIABLE = "GENOLEWM_WEBHOOK_URL"
UI_VARIABLE = "GENOLEWM_UI_URL"

#: Seconds after which a webhook is left to itself.
TIMEOUT_S = 10.0

#: Tag of a run that failed for a reason it states: launching it again (``run_retries`` in ``dagster.yaml``, for what an
#: accident ended, such as a database that went away) would end the same way.
FINAL: Mapping[str, str] = {"dagster/retry_on_asset_or_op_failure": "false"}

_LINE_LIMIT = 1_000

#: Facts of a failed step by name; None where one does not apply.
Report: TypeAlias = Mapping[str, str | None]


@dg.failure_hook(name="report_failure")
def report_failure(context: dg.HookContext) -> None:
    """Log the failure of a step in one line, and post it to the webhook, if there is one."""
    if isinstance(context.op_exception, dg.Failure):
        context.instance.add_run_tags(context.run_id, dict(FINAL))
    report = describe_failure(context)
    partition = "" if report["partition"] is None else f"[{report['partition']}]"
    context.log.error("%s%s failed: %s", report["asset"] or report["step"], partition, report["error"])
    url = os.environ.get(WEBHOOK_VARIABLE)
    if url and (problem := post(url, report)):
        context.log.warning("the webhook was not told: %s", problem)


def describe_failure(context: dg.HookContext) -> Report:
    """Return which step of which run failed, for which asset partition, why, and where the UI shows the run."""
    run = context.instance.get_run_by_id(context.run_id)
    ui = os.environ.get(UI_VARIABLE, "").rstrip("/")
    return {
        "run_id": context.run_id,
        "job": context.job_name,
        "step": context.step_key,
        "asset": _asset_of(context),
        "partition": run.tags.get("dagster/partition") if run else None,
        "error": error_line(context.op_exception),
        "url": f"{ui}/runs/{context.run_id}" if ui else None,
    }


def _asset_of(context: dg.HookContext) -> str | None:
    """Return the asset that the failed step was to make, as the run planned it."""
    planned = context.instance.all_logs(context.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED)
    for entry in planned:
        event = entry.dagster_event
        if event is not None and event.step_key == context.step_key and event.asset_key is not None:
            return event.asset_key.to_user_string()
    return None


def error_line(error: BaseException | None) -> str:
    """Return why a step failed, in one line: our own errors as they are, others after their type."""
    if isinstance(error, dg.Failure) and error.description:
        text = error.description
    else:
        text = f"{type(error).__name__}: {error}" if error else "no error was recorded"
    line = " ".join(text.split())
    return line if len(line) <= _LINE_LIMIT else f"{line[: _LINE_LIMIT - 1]}…"


def post(url: str, report: Report) -> str | None:
    """Post a report as JSON; returns what went wrong, None if the webhook took it (with any status below 400).

    What went wrong does not name the URL, which may hold a secret.
    """
    if not url.startswith(("http://", "https://")):
        return f"{WEBHOOK_VARIABLE} is no http(s) URL"
    outcome: list[str | None] = []
    # A socket's time-out counts from one byte to the next; a thread can be left whatever the other side does.
    thread = threading.Thread(target=lambda: outcome.append(_send(url, report)), name="report_failure", daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)
    return outcome[0] if outcome else _no_answer()


def _send(url: str, report: Report) -> str | None:
    headers = {"Content-Type": "application/json", "User-Agent": "genolewm"}
    try:
        request = urllib.request.Request(url, json.dumps(report).encode(), headers)  # noqa: S310 - the caller looked
        with urllib.request.urlopen(request, timeout=TIMEOUT_S):  # noqa: S310
            return None
    except urllib.error.HTTPError as err:
        err.close()
        return f"HTTP {err.code} {err.reason}"
    except urllib.error.URLError as err:
        return _no_answer() if isinstance(err.reason, TimeoutError) else str(err.reason)
    except TimeoutError:
        return _no_answer()
    except (OSError, HTTPException, ValueError) as err:
        return type(err).__name__


def _no_answer() -> str:
    return f"no answer within {TIMEOUT_S:g} s"
