"""What is failed, late, stale, not compared, missing or waiting, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal, TypeAlias

import dagster as dg

# Dagster has no public names for the state of checks by partition and for ticks; its UI uses these.
from dagster._core.event_api import PartitionKeyFilter
from dagster._core.scheduler.instigation import InstigatorStatus, TickStatus
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus, AssetCheckPartitionInfo

from genolewm_assets.defs.display import NO_ITEMS
from genolewm_assets.defs.runtime import (
    UNFINISHED,
    WAITING,
    Currency,
    PublishingAsset,
    checks_that_failed,
    failure_of,
    is_held,
)
from genolewm_assets.store.artefacts import ArtefactId
from genolewm_assets.windows.corpus import parse_piece

Kind: TypeAlias = Literal["failed", "late", "stale", "not compared", "unreadable", "missing", "waiting", "running"]

#: Kinds in the order of the page; the first five are reasons for exit code 4.
KINDS: tuple[Kind, ...] = ("failed", "late", "stale", "not compared", "unreadable", "missing", "waiting", "running")
ALARMING: frozenset[Kind] = frozenset(KINDS[:5])

#: Greatest number of runs and checks of one kind whose reason is read; the others are only counted.
EXPLAINED = 20
#: Greatest number of unfinished runs, and of failed runs without a partition, that are looked at.
_LISTED = 200

#: Age in seconds from which a failed tick is of something that ticks no more: the rarest schedules tick weekly.
_TICK_S = 8 * 86_400.0

#: Sensors that say for what a release or a run folder waits, and how their reason begins if they wait for nothing.
_NOTHING: Mapping[str, tuple[str, ...]] = {
    "clinvar_release_sensor": ("nothing to request",),
    "run_folder_sensor": ("nothing new", "the catalogue names no folder"),
}


#: Runs that are asked for at once.
_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Attempt:
    """A run, and the partitions that it was to build and has not, in dependency order."""

    record: dg.RunRecord
    artefacts: tuple[ArtefactId, ...]

    @property
    def run(self) -> dg.DagsterRun:
        """The run."""
        return self.record.dagster_run

    def among(self, expected: Mapping[str, Sequence[str | None]]) -> Attempt:
        """Return the attempt with those partitions alone that are expected, by asset."""
        return replace(self, artefacts=tuple(each for each in self.artefacts if each.partition in expected[each.asset]))

    @property
    def subject(self) -> str:
        """Name of the partition, or of the first of several."""
        more = len(self.artefacts) - 1
        return f"{self.artefacts[0]}{f' and {more} more' if more else ''}"


def open_attempts(instance: dg.DagsterInstance, assets: Iterable[PublishingAsset]) -> list[Attempt]:
    """Return the latest run of each partition whose latest run has not materialised it, newest run first."""
    planned: dict[str, list[ArtefactId]] = {}
    for asset in assets:
        for partition, run_id in _unmade(instance, asset):
            planned.setdefault(run_id, []).append(ArtefactId(asset.key, partition))
    run_ids = list(planned)
    found = [
        Attempt(record, tuple(planned[record.dagster_run.run_id]))
        for start in range(0, len(run_ids), _AT_ONCE)
        for record in instance.get_run_records(dg.RunsFilter(run_ids=run_ids[start : start + _AT_ONCE]))
    ]
    return sorted(found, key=lambda each: each.record.create_timestamp, reverse=True)


def _unmade(instance: dg.DagsterInstance, asset: PublishingAsset) -> Iterator[tuple[str | None, str]]:
    """Yield partition and run of the latest builds that materialised nothing."""
    storage, key = instance.event_log_storage, dg.AssetKey(asset.path)
    if asset.partitions.definition is not None:
        found: Mapping[str, tuple[str, int]] = (
            storage.get_latest_asset_partition_materialization_attempts_without_materializations(key)
        )
        yield from ((partition, run_id) for partition, (run_id, _) in found.items() if partition is not None)
        return
    latest = storage.get_latest_planned_materialization_info(key)
    made = instance.fetch_materializations(key, limit=1).records
    if latest is not None and not (made and made[0].storage_id > latest.storage_id):
        yield None, latest.run_id


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that needs a look, or time."""

    kind: Kind
    #: Partition, job, sensor or check.
    subject: str
    #: One line; empty if it was not read, because there are many.
    reason: str = ""
    #: Seconds since 1970; None if it is not known.
    since: float | None = None
    run_id: str | None = None
    #: Partitions that it concerns.
    artefacts: tuple[ArtefactId, ...] = ()


def failed_runs(
    instance: dg.DagsterInstance, attempts: Sequence[Attempt], expected: Mapping[str, Sequence[str | None]]
) -> Iterator[Trouble]:
    """Yield the failed runs of expected partitions that no later run has made good, newest first."""
    failed = [each for each in attempts if each.run.status is dg.DagsterRunStatus.FAILURE]
    failed = [attempt for each in failed if (attempt := each.among(expected)).artefacts]
    for number, attempt in enumerate(failed):
        reason = failure_of(instance, attempt.run).line if number < EXPLAINED else ""
        yield Trouble("failed", attempt.subject, reason, _ended(attempt.record), attempt.run.run_id, attempt.artefacts)
    yield from _failed_jobs(instance, {each.run.run_id for each in attempts})


def _failed_jobs(instance: dg.DagsterInstance, known: set[str]) -> Iterator[Trouble]:
    """Yield the jobs that build no partition and whose latest run failed."""
    wanted = dg.RunsFilter(statuses=[dg.DagsterRunStatus.FAILURE])
    seen: set[str] = set()
    for record in instance.get_run_records(wanted, limit=_LISTED):
        run = record.dagster_run
        makes_assets = run.job_name.startswith("__") or run.asset_selection or "dagster/partition" in run.tags
        if makes_assets or run.run_id in known or run.job_name in seen:
            continue
        seen.add(run.job_name)
        (latest, *_) = instance.get_runs(dg.RunsFilter(job_name=run.job_name), limit=1) or [run]
        if latest.run_id == run.run_id:
            yield Trouble("failed", f"job {run.job_name}", failure_of(instance, run).line, _ended(record), run.run_id)


def _ended(record: dg.RunRecord) -> float:
    return record.end_time or record.update_timestamp.timestamp()


def failed_checks(
    instance: dg.DagsterInstance,
    assets: Collection[PublishingAsset],
    expected: Mapping[str, Sequence[str | None]],
    reported: set[str],
) -> Iterator[Trouble]:
    """Yield the blocking checks whose latest evaluation failed, unless a run in ``reported`` (ids) failed them."""
    of = {
        asset.key: [dg.AssetCheckKey(dg.AssetKey(asset.path), name) for name in asset.check_names] for asset in assets
    }
    suspects = checks_that_failed(instance, chain.from_iterable(of.values()))
    for asset in assets:
        keys = [key for key in of[asset.key] if key in suspects]
        found = instance.event_log_storage.get_asset_check_partition_info(keys) if keys else ()
        failed = [
            each
            for each in found
            if each.latest_execution_status is AssetCheckExecutionRecordStatus.FAILED
            and each.latest_planned_run_id not in reported
            and each.partition_key in {None, *expected[asset.key]}
        ]
        for number, each in enumerate(failed):
            yield _failed_check(instance, asset, each, explain=number < EXPLAINED)


def _failed_check(
    instance: dg.DagsterInstance, asset: PublishingAsset, found: AssetCheckPartitionInfo, *, explain: bool
) -> Trouble:
    artefact = ArtefactId(asset.key, found.partition_key)
    subject = f"{artefact} {found.check_key.name}"
    records = (
        instance.event_log_storage.get_asset_check_execution_history(
            found.check_key,
            limit=1,
            status={AssetCheckExecutionRecordStatus.FAILED},
            partition_filter=PartitionKeyFilter(key=found.partition_key),
        )
        if explain
        else []
    )
    for record in records:
        event = record.event and record.event.dagster_event
        if event is None or event.event_type is not dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            continue
        evaluation = event.asset_check_evaluation_data
        stated = [evaluation.metadata.get(name) for name in ("error", "problems")]
        texts = [str(value.value) for value in stated if value is not None and value.value != NO_ITEMS]
        reason = " ".join(" ".join([*texts, evaluation.description or ""]).split()) or "the check failed"
        return Trouble("failed", subject, reason, record.create_timestamp, record.run_id, (artefact,))
    return Trouble("failed", subject, run_id=found.latest_planned_run_id, artefacts=(artefact,))


def outdated_partitions(
    surveyed: Iterable[Currency], failed: set[ArtefactId], of_pieces: Collection[str]
) -> Iterator[Trouble]:
    """Yield the partitions that a survey found stale or could not compare; not those that are told as failed.

    In the assets ``of_pieces``, the pieces of one source are one trouble if they have the same reasons.
    """
    found: dict[tuple[Kind, str, str, tuple[str, ...]], list[ArtefactId]] = {}
    for each in surveyed:
        asset, partition = each.artefact.asset, str(each.artefact.partition)
        if each.artefact not in failed and each.state in ("stale", "not compared"):
            whole = parse_piece(partition)[0] if asset in of_pieces else partition
            found.setdefault((each.state, asset, str(whole), each.reasons), []).append(each.artefact)
    for (kind, _, _, reasons), artefacts in found.items():
        more = f" and {len(artefacts) - 1} more" if len(artefacts) > 1 else ""
        yield Trouble(kind, f"{artefacts[0]}{more}", "; ".join(reasons), artefacts=tuple(artefacts))


def unfinished_runs(
    instance: dg.DagsterInstance, attempts: Sequence[Attempt], *, ignored: str | None
) -> Iterator[Trouble]:
    """Yield the runs that are waiting or running, oldest first; ``ignored`` is the id of the run that asks."""
    known = {each.run.run_id: each for each in attempts}
    records = instance.get_run_records(dg.RunsFilter(statuses=list(UNFINISHED)), limit=_LISTED, ascending=True)
    for record in records:
        run = record.dagster_run
        if run.run_id == ignored:
            continue
        partition = run.tags.get("dagster/partition")
        attempt = known.get(run.run_id)
        subject = attempt.subject if attempt else f"job {run.job_name}{f'[{partition}]' if partition else ''}"
        kind: Kind = "waiting" if run.status in WAITING else "running"
        reason = "held in the queue until what it reads is built" if is_held(run) else "queued"
        if kind == "running":
            reason = "" if run.status is dg.DagsterRunStatus.STARTED else run.status.value.lower()
        since = record.start_time or record.create_timestamp.timestamp()
        yield Trouble(kind, subject, reason, since, run.run_id, attempt.artefacts if attempt else ())


def waiting_sensors(instance: dg.DagsterInstance, now: float) -> Iterator[Trouble]:
    """Yield what the sensors of releases and runs wait for, and the sensors and schedules whose latest tick failed."""
    if instance.schedule_storage is None:
        return
    for state in instance.all_instigator_state():
        if state.status is InstigatorStatus.STOPPED:
            continue
        # The latest one may be in progress.
        ticks = instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=2)
        name = f"{state.instigator_type.value.lower()} {state.instigator_name}"
        for tick in [each for each in ticks if each.status is not TickStatus.STARTED][:1]:
            if tick.status is TickStatus.FAILURE and now - tick.timestamp < _TICK_S:
                error = tick.error and " ".join(tick.error.message.split())
                yield Trouble("failed", name, error or "the tick failed", tick.timestamp)
            reason = tick.skip_reason or ""
            if state.instigator_name in _NOTHING and reason and not reason.startswith(_NOTHING[state.instigator_name]):
                yield Trouble("waiting", name, " ".join(reason.split()), tick.timestamp)


def missing_partitions(
    assets: Iterable[PublishingAsset],
    expected: Mapping[str, Sequence[str | None]],
    published: set[tuple[str, str | None]],
    tried: set[ArtefactId],
) -> Iterator[Trouble]:
    """Yield the expected partitions that nothing is published of, one line per asset."""
    for asset in assets:
        keys = [key for key in expected[asset.key] if (asset.key, key) not in published]
        absent = tuple(each for key in keys if (each := ArtefactId(asset.key, key)) not in tried)
        if absent:
            more = f" and {len(absent) - 1} more" if len(absent) > 1 else ""
            yield Trouble("missing", f"{absent[0]}{more}", "nothing is published", artefacts=absent)
