"""``purge_old_runs``: remove runs that newer ones have replaced. Dagster itself keeps every run and event for ever."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeAlias

import dagster as dg

# The history of checks has no public names in Dagster; its command line and UI use these.
from dagster._core.event_api import PartitionKeyFilter
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from pydantic import Field

from genolewm_assets.defs.runtime import report_failure

#: An asset or a check of one, and the partition.
Subject: TypeAlias = tuple[dg.AssetKey | dg.AssetCheckKey, str | None]

_ENDED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]
_TELLING = {
    dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED,
    dg.DagsterEventType.ASSET_MATERIALIZATION,
    dg.DagsterEventType.ASSET_OBSERVATION,
    dg.DagsterEventType.ASSET_CHECK_EVALUATION,
}
_EVALUATED = {AssetCheckExecutionRecordStatus.SUCCEEDED, AssetCheckExecutionRecordStatus.FAILED}
_IMPLICIT_JOB = "__ASSET_JOB"
_LISTED_AT_ONCE = 500


class PurgeConfig(dg.Config):
    """Which runs may go."""

    older_than_days: float = Field(default=30, ge=0, description="Only runs that ended longer ago than this.")
    dry_run: bool = Field(default=False, description="Only say what would go.")


@dataclass(frozen=True, slots=True)
class _Latest:
    """Who spoke last of a subject, and when; the run is empty for what no run said."""

    run_id: str
    timestamp: float


@dataclass(slots=True)
class RunHistory:
    """What the events of an instance say about which runs have been replaced."""

    instance: dg.DagsterInstance
    _latest: dict[Subject, _Latest | None] = field(default_factory=dict)

    def ended_before(self, cutoff: datetime) -> Iterator[dg.RunRecord]:
        """Yield the runs that ended before a time, oldest first."""
        # Ids first: a page cannot begin behind a run that has been deleted.
        run_ids: list[str] = []
        chosen = dg.RunsFilter(statuses=_ENDED, created_before=cutoff)
        while page := self.instance.get_runs(
            chosen, limit=_LISTED_AT_ONCE, cursor=run_ids[-1] if run_ids else None, ascending=True
        ):
            run_ids += [run.run_id for run in page]
        for run_id in run_ids:
            record = self.instance.get_run_record_by_id(run_id)
            if record is not None and (record.end_time or record.update_timestamp.timestamp()) < cutoff.timestamp():
                yield record

    def is_superseded(self, record: dg.RunRecord) -> bool:
        """Tell whether another run spoke later, and successfully, of all that a run was to make, made or checked."""
        run = record.dagster_run
        if self._serves_a_backfill(run):
            return False
        touched = self._touched(run)
        if touched is None:
            return False
        if not touched:
            return run.job_name != _IMPLICIT_JOB and self._succeeded_since(record)
        return all(self._is_spoken_of_later(subject, run.run_id, since) for subject, since in touched.items())

    def _touched(self, run: dg.DagsterRun) -> dict[Subject, float] | None:
        """Return what a run was about, with the time it last spoke of each; None for what cannot be told apart."""
        touched: dict[Subject, float] = {}
        for entry in self.instance.all_logs(run.run_id, of_type=_TELLING):
            event = entry.dagster_event
            if event is None:
                continue
            if event.partitions_subset is not None:
                return None  # a range of partitions in one run, which assets with gates never have
            if event.asset_key is not None:
                touched[event.asset_key, event.partition] = entry.timestamp
            else:
                check = event.asset_check_evaluation_data
                touched[check.asset_check_key, check.partition] = entry.timestamp
        return touched

    def _is_spoken_of_later(self, subject: Subject, run_id: str, since: float) -> bool:
        if subject not in self._latest:
            key, partition = subject
            if isinstance(key, dg.AssetCheckKey):
                self._latest[subject] = self._latest_evaluation(key, partition)
            else:
                self._latest[subject] = self._latest_version(key, partition)
        latest = self._latest[subject]
        return latest is not None and latest.run_id != run_id and latest.timestamp > since

    def _latest_version(self, key: dg.AssetKey, partition: str | None) -> _Latest | None:
        wanted = dg.AssetRecordsFilter(asset_key=key, asset_partitions=None if partition is None else [partition])
        for fetch in (self.instance.fetch_materializations, self.instance.fetch_observations):
            for found in fetch(wanted, limit=1).records:
                return _Latest(found.run_id, found.timestamp)
        return None

    def _latest_evaluation(self, key: dg.AssetCheckKey, partition: str | None) -> _Latest | None:
        history = self.instance.event_log_storage.get_asset_check_execution_history(
            key, limit=1, status=_EVALUATED, partition_filter=PartitionKeyFilter(key=partition)
        )
        for found in history:
            return _Latest(found.run_id, found.event.timestamp if found.event else found.create_timestamp)
        return None

    def _succeeded_since(self, record: dg.RunRecord) -> bool:
        """Tell whether a job that makes no asset has succeeded again."""
        later = dg.RunsFilter(
            job_name=record.dagster_run.job_name,
            statuses=[dg.DagsterRunStatus.SUCCESS],
            created_after=record.create_timestamp,
        )
        return any(run.run_id != record.dagster_run.run_id for run in self.instance.get_runs(later, limit=2))

    def _serves_a_backfill(self, run: dg.DagsterRun) -> bool:
        """Tell whether a backfill that goes on still counts this run."""
        backfill_id = run.tags.get("dagster/backfill")
        backfill = self.instance.get_backfill(backfill_id) if backfill_id else None
        return backfill is not None and backfill.status.value in {"REQUESTED", "CANCELING", "FAILING"}


@dg.op
def delete_superseded_runs(context: dg.OpExecutionContext, config: PurgeConfig) -> dg.Output[None]:
    """Delete what is old and replaced, with its events and its captured output, and count it."""
    history = RunHistory(context.instance)
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
    verb = "would go" if config.dry_run else "are gone"
    context.log.info(
        f"Of the runs that ended more than {config.older_than_days:g} days ago, {counts['deleted']} were superseded "
        f"and {verb}; {counts['kept']} hold the latest word on something and stay"
    )
    return dg.Output(None, metadata={**counts, "dry_run": config.dry_run})


@dg.job(
    name="purge_old_runs",
    hooks={report_failure},
    description="Delete runs that newer ones have replaced; never one that holds the latest event of anything.",
)
def purge_old_runs_job() -> None:
    """Run the one step."""
    delete_superseded_runs()


purge_old_runs_schedule = dg.ScheduleDefinition(
    name="purge_old_runs_schedule",
    job=purge_old_runs_job,
    cron_schedule="43 3 * * 0",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Weekly.",
)
