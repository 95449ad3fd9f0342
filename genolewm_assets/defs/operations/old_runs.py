"""``purge_old_runs``: deletes superseded runs and old evaluations of conditions, which Dagster would keep for ever."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import dagster as dg

# Dagster has no public names for the history of checks; its command line and UI use these.
from dagster._core.event_api import PartitionKeyFilter
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from pydantic import Field

from genolewm_assets.defs.runtime import ENDED, report_failure
from genolewm_assets.errors import counted

#: An asset or a check, and the partition (None if there are no partitions).
Subject: TypeAlias = tuple[dg.AssetKey | dg.AssetCheckKey, str | None]

#: Run id (empty if no run made it) and time in seconds of the latest event of a subject; None without one.
_Latest: TypeAlias = tuple[str, float] | None

_SUBJECT_EVENTS = {
    dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED,
    dg.DagsterEventType.ASSET_MATERIALIZATION,
    dg.DagsterEventType.ASSET_OBSERVATION,
    dg.DagsterEventType.ASSET_CHECK_EVALUATION,
}
_EVALUATED = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}
_IMPLICIT_JOB = "__ASSET_JOB"
_LISTED_AT_ONCE = 500


class PurgeConfig(dg.Config):
    """Run config of ``purge_old_runs``."""

    older_than_days: float = Field(default=30, ge=0, description="Least age of a run, in days since it ended.")
    evaluations_days: float = Field(default=7, ge=0, description="Age, in days, to which evaluations are kept.")
    dry_run: bool = Field(default=False, description="Only count the runs; delete nothing.")


@dataclass(slots=True)
class RunHistory:
    """Decides which runs of an instance have been superseded, from the instance's events."""

    instance: dg.DagsterInstance
    _latest: dict[Subject, _Latest] = field(default_factory=dict)

    def ended_before(self, cutoff: datetime) -> Iterator[dg.RunRecord]:
        """Yield the runs that ended before a time, oldest first."""
        # All ids are listed first, because a page cannot start after a run that has been deleted.
        run_ids: list[str] = []
        chosen = dg.RunsFilter(statuses=list(ENDED), created_before=cutoff)
        while page := self.instance.get_runs(
            chosen, limit=_LISTED_AT_ONCE, cursor=run_ids[-1] if run_ids else None, ascending=True
        ):
            run_ids += [run.run_id for run in page]
        for run_id in run_ids:
            record = self.instance.get_run_record_by_id(run_id)
            if record is not None and (record.end_time or record.update_timestamp.timestamp()) < cutoff.timestamp():
                yield record

    def is_superseded(self, record: dg.RunRecord) -> bool:
        """Tell whether a run can be deleted without losing the latest event of any asset or check.

        Later runs must have made or observed every partition that the run planned, made or observed, and evaluated
        every check that it evaluated. A run without such events is superseded by a later success of its job. Runs of an
        unfinished backfill or over a range of partitions are never superseded.
        """
        run = record.dagster_run
        if self._is_in_open_backfill(run):
            return False
        subjects = self._subjects_of(run)
        if subjects is None:
            return False
        if not subjects:
            return run.job_name != _IMPLICIT_JOB and self._succeeded_since(record)
        return all(self._has_later_event(subject, run.run_id, since) for subject, since in subjects.items())

    def _subjects_of(self, run: dg.DagsterRun) -> dict[Subject, float] | None:
        """Return the subjects of a run's events with the time of the last event of each; None if they are not known."""
        subjects: dict[Subject, float] = {}
        for entry in self.instance.all_logs(run.run_id, of_type=_SUBJECT_EVENTS):
            event = entry.dagster_event
            if event is None:
                continue
            if event.partitions_subset is not None:
                return None  # a range of partitions in one run, which gated assets never have
            if event.asset_key is not None:
                subjects[event.asset_key, event.partition] = entry.timestamp
            else:
                check = event.asset_check_evaluation_data
                subjects[check.asset_check_key, check.partition] = entry.timestamp
        return subjects

    def _has_later_event(self, subject: Subject, run_id: str, since: float) -> bool:
        if subject not in self._latest:
            key, partition = subject
            if isinstance(key, dg.AssetCheckKey):
                self._latest[subject] = self._latest_evaluation(key, partition)
            else:
                self._latest[subject] = self._latest_version(key, partition)
        latest = self._latest[subject]
        return latest is not None and latest[0] != run_id and latest[1] > since

    def _latest_version(self, key: dg.AssetKey, partition: str | None) -> _Latest:
        wanted = dg.AssetRecordsFilter(asset_key=key, asset_partitions=None if partition is None else [partition])
        for fetch in (self.instance.fetch_materializations, self.instance.fetch_observations):
            for found in fetch(wanted, limit=1).records:
                return found.run_id, found.timestamp
        return None

    def _latest_evaluation(self, key: dg.AssetCheckKey, partition: str | None) -> _Latest:
        history = self.instance.event_log_storage.get_asset_check_execution_history(
            key, limit=1, status=_EVALUATED, partition_filter=PartitionKeyFilter(key=partition)
        )
        for found in history:
            return found.run_id, found.event.timestamp if found.event else found.create_timestamp
        return None

    def _succeeded_since(self, record: dg.RunRecord) -> bool:
        """Tell whether the job of a run that makes no asset has succeeded in a later run."""
        later = dg.RunsFilter(
            job_name=record.dagster_run.job_name,
            statuses=[dg.DagsterRunStatus.SUCCESS],
            created_after=record.create_timestamp,
        )
        return any(run.run_id != record.dagster_run.run_id for run in self.instance.get_runs(later, limit=2))

    def _is_in_open_backfill(self, run: dg.DagsterRun) -> bool:
        """Tell whether a run belongs to an unfinished backfill, which still counts its runs."""
        backfill_id = run.tags.get("dagster/backfill")
        backfill = self.instance.get_backfill(backfill_id) if backfill_id else None
        return backfill is not None and backfill.status.value in {"REQUESTED", "CANCELING", "FAILING"}


@dg.op
def delete_superseded_runs(context: dg.OpExecutionContext, config: PurgeConfig) -> dg.Output[None]:
    """Delete old, superseded runs, and count them; delete old evaluations of automation conditions.

    The events and captured output of the runs are deleted with them.
    """
    history = RunHistory(context.instance)
    evaluated_before = datetime.now(UTC) - timedelta(days=config.evaluations_days)
    if not config.dry_run and context.instance.schedule_storage is not None:
        context.instance.schedule_storage.purge_asset_evaluations(evaluated_before.timestamp())
    counts = Counter(deleted=0, kept=0)
    cutoff = datetime.now(UTC) - timedelta(days=config.older_than_days)
    for record in history.ended_before(cutoff):
        run = record.dagster_run
        if not history.is_superseded(record):
            counts["kept"] += 1
            continue
        counts["deleted"] += 1
        context.log.debug(f"{run.job_name} {run.run_id}, {run.status.value}")
        if not config.dry_run:
            context.instance.delete_run(run.run_id)
            context.instance.compute_log_manager.delete_logs(prefix=[run.run_id])
    verb = "would be deleted" if config.dry_run else "were deleted"
    superseded = counted(counts["deleted"], "superseded one")
    context.log.info(
        f"runs that ended over {config.older_than_days:g} days ago: {superseded} {verb}, "
        f"{counts['kept']} kept because they hold the latest event of an asset or check"
    )
    return dg.Output(None, metadata={**counts, "dry_run": config.dry_run})


@dg.job(
    name="purge_old_runs",
    hooks={report_failure},
    description=(
        "Delete old runs that newer runs have superseded, and evaluations of automation that are over a week old. A "
        "run with the latest event of an asset is kept."
    ),
)
def purge_old_runs_job() -> None:
    """Run ``delete_superseded_runs``."""
    delete_superseded_runs()


purge_old_runs_schedule = dg.ScheduleDefinition(
    name="purge_old_runs_schedule",
    job=purge_old_runs_job,
    cron_schedule="43 3 * * 0",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Delete superseded runs weekly.",
)
