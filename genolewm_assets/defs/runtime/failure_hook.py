"""``report_failure``: logs a failed step and posts it to the webhook.

The run's log gets one line. If ``GENOLEWM_WEBHOOK_URL`` is set, a small JSON document is posted to that URL. The
request never changes the outcome of the run and delays its end by at most :data:`TIMEOUT_S`.
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

from genolewm_assets.defs.runtime.failures import reason_of

WEBHOOK_VARIABLE = "GENOLEWM_WEBHOOK_URL"
UI_VARIABLE = "GENOLEWM_UI_URL"

#: Seconds to wait for the webhook.
TIMEOUT_S = 10.0

#: Tag of a run that failed with a ``dg.Failure``: a retry would fail in the same way. ``run_retries`` in
#: ``dagster.yaml`` is for runs that an accident ended, such as a lost database.
FINAL: Mapping[str, str] = {"dagster/retry_on_asset_or_op_failure": "false"}

#: Facts of a failed step by name; None if a fact does not apply.
Report: TypeAlias = Mapping[str, str | None]


@dg.failure_hook(name="report_failure")
def report_failure(context: dg.HookContext) -> None:
    """Log the failure of a step in one line and, if a webhook is set, post it there."""
    if isinstance(context.op_exception, dg.Failure):
        context.instance.add_run_tags(context.run_id, dict(FINAL))
    report = describe_failure(context)
    partition = "" if report["partition"] is None else f"[{report['partition']}]"
    context.log.error("%s%s failed: %s", report["asset"] or report["step"], partition, report["error"])
    url = os.environ.get(WEBHOOK_VARIABLE)
    if url and (problem := post(url, report)):
        context.log.warning("the failure was not posted to the webhook: %s", problem)


def describe_failure(context: dg.HookContext) -> Report:
    """Return run, job, step, asset, partition, error line and UI address of a failed step."""
    run = context.instance.get_run_by_id(context.run_id)
    ui = os.environ.get(UI_VARIABLE, "").rstrip("/")
    return {
        "run_id": context.run_id,
        "job": context.job_name,
        "step": context.step_key,
        "asset": _asset_of(context),
        "partition": run.tags.get("dagster/partition") if run else None,
        "error": reason_of(context.op_exception).line,
        "url": f"{ui}/runs/{context.run_id}" if ui else None,
    }


def _asset_of(context: dg.HookContext) -> str | None:
    """Return the asset that the run planned for the failed step; None if the step makes no asset."""
    planned = context.instance.all_logs(context.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED)
    for entry in planned:
        event = entry.dagster_event
        if event is not None and event.step_key == context.step_key and event.asset_key is not None:
            return event.asset_key.to_user_string()
    return None


def post(url: str, report: Report) -> str | None:
    """Post a report as JSON; return the problem, or None if the webhook answered with a status below 400.

    The text of the problem does not contain the URL, which may hold a secret.
    """
    if not url.startswith(("http://", "https://")):
        return f"{WEBHOOK_VARIABLE} is not an http(s) URL"
    outcome: list[str | None] = []
    # A socket's time-out restarts with every byte; a daemon thread bounds the total time.
    thread = threading.Thread(target=lambda: outcome.append(_send(url, report)), name="report_failure", daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)
    return outcome[0] if outcome else _no_answer()


def _send(url: str, report: Report) -> str | None:
    headers = {"Content-Type": "application/json", "User-Agent": "genolewm"}
    try:
        request = urllib.request.Request(url, json.dumps(report).encode(), headers)  # noqa: S310 - scheme checked
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
