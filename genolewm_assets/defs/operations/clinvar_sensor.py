"""New ClinVar releases: a sensor registers them and requests the newest; a weekly schedule repeats failed requests.

The root's ledger is compared with Dagster's partitions, so no lost cursor requests a release twice.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

import dagster as dg
import tenacity
from pydantic import BaseModel, Field, ValidationError

from genolewm_assets.defs.assets import clinvar_changes, clinvar_shard, packages_audit
from genolewm_assets.defs.operations.build_everything import BUILD_EVERYTHING
from genolewm_assets.defs.operations.build_inputs import describe_missing, inputs_of, is_published, missing_inputs
from genolewm_assets.defs.operations.release_job import UNPACKAGED_ASSETS, built_for, refresh_release_job
from genolewm_assets.defs.operations.run_queue import cancel_stranded
from genolewm_assets.defs.runtime import (
    HELD_TAG,
    NEVER_BEGAN,
    UNFINISHED,
    Workspace,
    WorkspaceResource,
    clinvar_release_partitions,
    configured_catalog,
)
from genolewm_assets.errors import (
    CorruptResourceError,
    MissingResourceError,
    RejectedResourceError,
    ResourceError,
    counted,
)
from genolewm_assets.sources.catalog import Release, load_catalog
from genolewm_assets.sources.clinvar import (
    Listing,
    RegisteredRelease,
    offered_releases,
    read_ledger,
    read_listing,
    register_releases,
)
from genolewm_assets.variants import ReleaseKey, is_before

#: Seconds for reading the listing. Dagster ends a tick after 60 s, and the next tick tries again.
_READ_WITHIN_S = 30.0
_ATTEMPTS, _PAUSE = 2, tenacity.wait_fixed(1)

_PARTITIONS = str(clinvar_release_partitions.name)
#: Errors that a person has to repair; others may disappear by the next tick.
_LASTING = (CorruptResourceError, RejectedResourceError)


class _Cursor(BaseModel):
    """State that one tick of the sensor passes to the next."""

    #: Newest release seen so far. A newer release is requested even if its partition exists already, because a crash
    #: can fall between registration and request.
    newest: Release | None = None
    #: The newest release if it could not be requested yet; it stays a candidate.
    waiting: Release | None = None
    #: Identities of new files without a published checksum, by file name. Such a file is complete when two ticks find
    #: the same identity.
    arriving: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def parse(cls, text: str | None) -> "_Cursor":
        """Parse a cursor; a missing or unreadable cursor gives an empty one."""
        try:
            return cls.model_validate_json(text or "{}")
        except ValidationError:
            return cls()


@dataclass(frozen=True, slots=True)
class _ReleaseState:
    """Releases found by one reading of the listing."""

    #: Releases of the ledger that the catalogue admits, oldest first.
    known: tuple[RegisteredRelease, ...]
    #: Keys of the known releases that the listing offers now, oldest first.
    offered: tuple[str, ...]
    #: Identities of new files without a published checksum that only this reading has found, by name.
    arriving: Mapping[str, str]
    #: Problems of files that seem to be incomplete, by name.
    unfinished: Mapping[str, str]

    def unregistered(self, instance: dg.DagsterInstance) -> list[str]:
        """Return the keys of known releases that are not yet registered as partitions."""
        registered = set(instance.get_dynamic_partitions(_PARTITIONS))
        return [release.key for release in self.known if release.key not in registered]

    def __str__(self) -> str:
        arriving = f"; not complete yet: {', '.join(sorted({*self.arriving, *self.unfinished}))}"
        newest = f", newest {self.offered[-1]}" if self.offered else ""
        return f"{len(self.offered)} offered{newest}{arriving if self.arriving or self.unfinished else ''}"


def _read_releases(workspace: Workspace, log: logging.Logger, before: Mapping[str, str] | None = None) -> _ReleaseState:
    """Read the listing and add new releases to the ledger.

    A new file without a published checksum is accepted only if its identity is that of the previous tick, ``before``;
    at once if that is None.
    """
    settings = workspace.catalog.clinvar
    place = workspace.url(settings.listing)
    listing = read_listing(place, attempts=_ATTEMPTS, wait=_PAUSE, within_s=_READ_WITHIN_S)
    for problem in listing.unfinished.values():
        log.warning(problem)
    arriving = {} if before is None else _arriving(workspace, listing, before)
    complete = replace(listing, files=tuple(file for file in listing.files if file.file_name not in arriving))
    known = tuple(
        release
        for release in register_releases(workspace.root.path, complete, newest_first=settings.newest_first)
        if settings.releases is None or release.key in settings.releases
    )
    offered = tuple(release.key for release in offered_releases(known, complete))
    return _ReleaseState(known, offered, arriving, listing.unfinished)


def _arriving(workspace: Workspace, listing: Listing, before: Mapping[str, str]) -> dict[str, str]:
    """Return new files without a published checksum whose identity differs from that in ``before``, by name."""
    known = {(release.file_name, release.identity) for release in read_ledger(workspace.root.path)}
    return {
        file.file_name: file.identity
        for file in listing.files
        if file.md5 is None
        and (file.file_name, file.identity) not in known
        and before.get(file.file_name) != file.identity
    }


def _refresh(
    workspace: Workspace, key: str, *, run_key: str | None, predecessor: str | None, packaged: bool = True
) -> dg.RunRequest:
    """Return the request of a run that builds the assets of a release, with ``packaged`` its package where wanted."""
    whole = packaged and workspace.is_packaged(key)
    keys = None if whole else [dg.AssetKey(asset.path) for asset in UNPACKAGED_ASSETS]
    config = {"ops": {"__".join(clinvar_changes.path): {"config": {"predecessor": predecessor}}}} if predecessor else {}
    return dg.RunRequest(
        run_key=run_key, job_name=refresh_release_job.name, partition_key=key, run_config=config, asset_selection=keys
    )


def _count_runs(instance: dg.DagsterInstance, key: str, statuses: tuple[dg.DagsterRunStatus, ...] = ()) -> int:
    """Count the runs of ``refresh_release`` for a release, but not those that were cancelled before they began."""
    tags = {"dagster/partition": key}
    wanted = dg.RunsFilter(job_name=refresh_release_job.name, tags=tags, statuses=statuses)
    never_began = dg.RunsFilter(job_name=refresh_release_job.name, tags={**tags, HELD_TAG: NEVER_BEGAN})
    return instance.get_runs_count(wanted) - (0 if statuses else instance.get_runs_count(never_began))


@dg.sensor(
    job=refresh_release_job,
    minimum_interval_seconds=load_catalog(configured_catalog()).clinvar.listing_interval_s,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description=(
        "Looks for new ClinVar releases in the catalogue's listing, registers them, and requests refresh_release for "
        "the newest once all that it reads is published. A tick that waits says for what."
    ),
)
def clinvar_release_sensor(
    context: dg.SensorEvaluationContext, workspace: dg.ResourceParam[WorkspaceResource]
) -> dg.SensorResult | dg.SkipReason:
    """Register every new ClinVar release of the catalogue's listing, and request refresh_release for the newest.

    Older releases are registered but not requested. A file that replaces another under the same name gets a new key. If
    the listing cannot be read, the next tick reads it again. While something that the build reads is not published,
    or `build_everything` runs, the sensor waits and says for what. A build that failed because an input was missing is
    requested again after one was published.
    """
    if stranded := cancel_stranded(context.instance, BUILD_EVERYTHING):
        context.log.warning(f"cancelled: {counted(stranded, 'run')} that {BUILD_EVERYTHING} left in the queue")
    cursor = _Cursor.parse(context.cursor)
    try:
        opened = workspace.open()
        state = _read_releases(opened, context.log, cursor.arriving)
    except _LASTING:
        raise
    except ResourceError as err:
        context.log.warning(str(err))
        return dg.SkipReason(str(err))
    new = state.unregistered(context.instance)
    for release in state.known:
        if release.key in new:
            context.log.info(f"new release {release.key}: {release.file_name} ({release.identity})")
    key = _candidate(context.instance, state, new, cursor)
    requests, waits_for = _newest_request(opened, context, state, key) if key else ([], None)
    return dg.SensorResult(
        dynamic_partitions_requests=[clinvar_release_partitions.build_add_request(new)] if new else [],
        run_requests=requests,
        skip_reason=None if requests else waits_for or f"nothing to request: {state}",
        cursor=_Cursor(
            # A release that waits, for example for its T0, stays a candidate: the cursor remains before it.
            newest=_newest(state, cursor, before=key if waits_for else None),
            waiting=key if waits_for else None,
            arriving=dict(state.arriving),
        ).model_dump_json(exclude_none=True),
    )


def _candidate(instance: dg.DagsterInstance, state: _ReleaseState, new: list[str], cursor: _Cursor) -> str | None:
    """Return the newest offered release if it is new, waits, or failed because an input was missing; else None."""
    newest = cursor.newest
    for key in reversed(state.offered):
        if key in new or key == cursor.waiting or (newest is not None and is_before(newest, key)):
            return key
    if state.offered and _failed_for_missing_input(instance, state.offered[-1]) is not None:
        return state.offered[-1]
    return None


def _newest(state: _ReleaseState, cursor: _Cursor, *, before: str | None = None) -> str | None:
    """Return the newest release seen, or with ``before`` the newest one before that release."""
    seen = [*state.offered, *([cursor.newest] if cursor.newest else [])]
    return max((key for key in seen if before is None or is_before(key, before)), key=ReleaseKey.parse, default=None)


def _newest_request(
    workspace: Workspace, context: dg.SensorEvaluationContext, state: _ReleaseState, key: str
) -> tuple[list[dg.RunRequest], str | None]:
    """Return a request for the candidate, and what it waits for.

    There is none if a newer release is published or it was requested before. If the shard of its T0 is missing, T0 is
    requested first, and the candidate once that run has ended.
    """
    published = [release.key for release in state.known if is_published(workspace, clinvar_shard, release.key)]
    if any(is_before(key, other) for other in published):
        context.log.info(f"{key} is older than a published release: it is registered, but built only on request")
        return [], None
    runs = _count_runs(context.instance, key)
    if runs and not _has_new_input(workspace, context.instance, key):
        context.log.info(f"{key} was requested before")
        return [], None
    if reason := _waits_for(workspace, context.instance, key):
        return [], reason
    t0 = _missing_t0(workspace, state, key)
    if t0 is not None and not _count_runs(context.instance, t0):
        context.log.info(f"{t0}, T0 of {key}, is requested before it")
        return [_refresh(workspace, t0, run_key=t0, predecessor=None, packaged=False)], f"{key} waits for its T0, {t0}"
    if t0 is not None and _count_runs(context.instance, t0, UNFINISHED):
        return [], f"{key} waits for its T0, {t0}, which is being built"
    earlier = [other for other in published if is_before(other, key)]
    run_key = f"{key} after {runs} failed" if runs else key
    return [_refresh(workspace, key, run_key=run_key, predecessor=earlier[-1] if earlier else None)], None


def _waits_for(workspace: Workspace, instance: dg.DagsterInstance, key: str) -> str | None:
    """Return what the build of a release has to wait for; None if it can begin."""
    everything = dg.RunsFilter(job_name=BUILD_EVERYTHING, statuses=list(UNFINISHED))
    if runs := instance.get_runs(everything, limit=1):
        return f"{key} waits for {BUILD_EVERYTHING} (run {runs[0].run_id[:8]}), which builds every release"
    missing = missing_inputs(workspace, built_for(workspace, key), key, instance)
    return f"{key} {describe_missing(missing)}" if missing else None


def _failed_for_missing_input(instance: dg.DagsterInstance, key: str) -> dg.RunRecord | None:
    """Return the latest run for a release if it failed because an input was missing; else None."""
    tags = {"dagster/partition": key}
    tried = [status for status in dg.DagsterRunStatus if status is not dg.DagsterRunStatus.CANCELED]
    wanted = dg.RunsFilter(job_name=refresh_release_job.name, tags=tags, statuses=tried)
    records = instance.get_run_records(wanted, limit=1)
    for record in records:
        entries = instance.all_logs(record.dagster_run.run_id, of_type=dg.DagsterEventType.STEP_FAILURE)
        events = [entry.dagster_event for entry in entries if entry.dagster_event]
        errors = [event.step_failure_data.error for event in events]
        if any(error and error.cause and error.cause.cls_name == MissingResourceError.__name__ for error in errors):
            return record
    return None


def _has_new_input(workspace: Workspace, instance: dg.DagsterInstance, key: str) -> bool:
    """Tell whether the latest run for a release failed because an input was missing, and one was published since."""
    failed = _failed_for_missing_input(instance, key)
    if failed is None:
        return False
    inputs = [
        *inputs_of(built_for(workspace, key), key, instance),
        *((clinvar_shard, other) for other in workspace.known_releases() if is_before(other, key)),
    ]
    for asset, partition in inputs:
        record = instance.get_latest_data_version_record(dg.AssetKey(asset.path), partition_key=partition)
        if record is not None and record.timestamp > failed.create_timestamp.timestamp():
            return True
    return False


def _missing_t0(workspace: Workspace, state: _ReleaseState, key: str) -> str | None:
    """Return T0 of a packaged release if the listing offers it and its shard is not published, else None."""
    t0 = workspace.temporal(key).earlier if workspace.is_packaged(key) else None
    if t0 is None or t0 not in state.offered or is_published(workspace, clinvar_shard, t0):
        return None
    return t0


@dg.schedule(
    cron_schedule="0 6 * * 2",
    execution_timezone="UTC",
    job=refresh_release_job,
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description=(
        "Weekly, requests refresh_release for the newest ClinVar release if it is not built yet: in place of the "
        "sensor where that is off, and again after a failure that has passed."
    ),
)
def clinvar_release_schedule(
    context: dg.ScheduleEvaluationContext, workspace: dg.ResourceParam[WorkspaceResource]
) -> dg.RunRequest | dg.SkipReason | list[dg.RunRequest]:
    """Once a week, request refresh_release for the newest ClinVar release if it is not built yet.

    This replaces the sensor where it is off, and repeats runs that failed for a temporary reason. A release is built if
    its package is published and audited or, if the catalogue does not package it, its shard.
    """
    try:
        opened = workspace.open()
        state = _read_releases(opened, context.log)
    except _LASTING:
        raise
    except ResourceError as err:
        context.log.warning(str(err))
        return dg.SkipReason(str(err))
    context.instance.add_dynamic_partitions(_PARTITIONS, state.unregistered(context.instance))
    if not state.offered:
        return dg.SkipReason(str(state))
    key = state.offered[-1]
    # A newer published release counts too: if its checksum cannot be read today, no older release must be requested.
    for release in state.known:
        product = packages_audit if opened.is_packaged(release.key) else clinvar_shard
        if not is_before(release.key, key) and is_published(opened, product, release.key):
            return dg.SkipReason(f"{product.key}[{release.key}] is published: {state}")
    running = f"a run for {key} is in progress" if _count_runs(context.instance, key, UNFINISHED) else None
    if reason := running or _waits_for(opened, context.instance, key):
        return dg.SkipReason(reason)
    # No predecessor is named, so that a release that was compared before keeps its predecessor.
    refresh = _refresh(opened, key, run_key=None, predecessor=None)
    t0 = _missing_t0(opened, state, key)
    if t0 is None or _count_runs(context.instance, t0, UNFINISHED):
        return refresh
    # Where the sensor is off. The package may have to wait for the next week.
    return [_refresh(opened, t0, run_key=None, predecessor=None, packaged=False), refresh]
