"""``report_failure``: logs and posts a failed step, and forgets the checks that the run did not reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import dagster as dg

from genolewm_assets.defs.runtime.check_records import forget_unreached
from genolewm_assets.defs.runtime.failures import reason_of
from genolewm_assets.defs.runtime.webhook import page_url, pointing_to, post, webhook_url

#: Tag of a run that failed with a ``dg.Failure`` without ``allow_retries``: a retry would fail in the same way.
#: ``run_retries`` in ``dagster.yaml`` is for faults of machines and for runs that an accident ended, such as a lost
#: database.
FINAL: Mapping[str, str] = {"dagster/retry_on_asset_or_op_failure": "false"}

#: Facts of a failed step by name; None if a fact does not apply.
Report: TypeAlias = Mapping[str, str | None]


@dg.failure_hook(name="report_failure")
def report_failure(context: dg.HookContext) -> None:
    """Log the failure of a step in one line and, if a webhook is set, post it there."""
    if isinstance(context.op_exception, dg.Failure) and not context.op_exception.allow_retries:
        context.instance.add_run_tags(context.run_id, dict(FINAL))
    report = describe_failure(context)
    partition = "" if report["partition"] is None else f"[{report['partition']}]"
    line = f"{report['asset'] or report['step']}{partition} failed: {report['error']}"
    context.log.error("%s", pointing_to(line, *_pages(context)))
    if report["asset"] is not None:
        # Dagster gives a hook no public access to the graph of its job.
        graph = context._step_execution_context.job_def.asset_layer.asset_graph
        failed = dg.AssetSelection.assets(dg.AssetKey(report["asset"].split("/")))
        # A build that says why it failed has reported the checks that it reached; of any other the state is not known.
        said = isinstance(context.op_exception, dg.Failure)
        forget_unreached(context.instance, context.run_id, failed.downstream(include_self=said).resolve(graph))
    url = webhook_url()
    if url and (problem := post(url, report)):
        context.log.warning("the failure was not posted to the webhook: %s", problem)


def describe_failure(context: dg.HookContext) -> Report:
    """Return run, job, step, asset, partition, error line of a failed step, and the addresses that explain it."""
    run = context.instance.get_run_by_id(context.run_id)
    return {
        "run_id": context.run_id,
        "job": context.job_name,
        "step": context.step_key,
        "asset": _asset_of(context),
        "partition": run.tags.get("dagster/partition") if run else None,
        "error": reason_of(context.op_exception).line,
        "url": page_url(_pages(context)[0]),
        "run_url": page_url(f"runs/{context.run_id}"),
    }


def _pages(context: dg.HookContext) -> list[str]:
    """Return the pages of the checks for which the step failed; of the run if it failed for none."""
    stated = context.op_exception.metadata if isinstance(context.op_exception, dg.Failure) else {}
    pages = [value.value for value in stated.values() if isinstance(value, dg.UrlMetadataValue) and value.value]
    return pages or [f"runs/{context.run_id}"]


def _asset_of(context: dg.HookContext) -> str | None:
    """Return the asset that the run planned for the failed step; None if the step makes no asset."""
    planned = context.instance.all_logs(context.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED)
    for entry in planned:
        event = entry.dagster_event
        if event is not None and event.step_key == context.step_key and event.asset_key is not None:
            return event.asset_key.to_user_string()
    return None
