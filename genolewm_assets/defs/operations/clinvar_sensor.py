"""New ClinVar releases: a sensor registers them and requests the newest; a weekly schedule repeats failed requests.

New releases are found by comparing the ledger of releases in the root with the partitions in Dagster's instance, never
from the cursor alone, so that neither a restart nor a lost cursor registers or requests a release twice.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

import dagster as dg
import tenacity
from pydantic import BaseModel, Field, ValidationError

from genolewm_assets.defs.assets import clinvar_changes, clinvar_release, clinvar_shard, packages_split
from genolewm_assets.defs.operations.jobs import refresh_release_job
from genolewm_assets.defs.runtime import (
    GatedAsset,
    Workspace,
    WorkspaceResource,
    clinvar_release_partitions,
    configured_catalog,
)
from genolewm_assets.errors import CorruptResourceError, GenoLeWMError, RejectedResourceError, ResourceError
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

#: Assets that are built for a release that the catalogue does not package.
UNPACKAGED_ASSETS = (clinvar_release, clinvar_shard, clinvar_changes)

#: Seconds for reading the listing. Dagster ends a tick after 60 s, and the next tick tries again.
_READ_WITHIN_S = 30.0
_ATTEMPTS, _PAUSE = 2, tenacity.wait_fixed(1)

_PARTITIONS = str(clinvar_release_partitions.name)
_ENDED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


class _Cursor(BaseModel):
    """State that one tick of the sensor passes to the next.

    Attributes
    ----------
    newest
        Newest release seen so far. A newer release is requested even if its partition exists already, because a crash
        can fall between registration and request.
    arriving
        Identities of new files without a published checksum, by file name. Such a file is complete when two ticks find
        the same identity.
    """

    newest: Release | None = None
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
    """Releases found by one reading of the listing.

    Attributes
    ----------
    known
        Releases of the ledger that the catalogue admits, oldest first.
    offered
        Keys of the known releases that the listing offers now, oldest first.
    arriving
        Identities of new files without a published checksum that only this reading has found, by name.
    unfinished
        Problems of files that seem to be incomplete, by name.
    """

    known: tuple[RegisteredRelease, ...]
    offered: tuple[str, ...]
    arriving: Mapping[str, str]
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

    Parameters
    ----------
    before
        Identities of incomplete files found by the previous tick, by name. A new file without a published checksum is
        accepted only if its identity is the same; if None, it is accepted at once.
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
        for release in register_releases(workspace.root.path, complete)
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


def _is_published(workspace: Workspace, asset: GatedAsset, key: str) -> bool:
    try:
        asset.open(workspace, key, contents="sizes")
    except GenoLeWMError:
        return False
    return True


def _refresh(workspace: Workspace, key: str, *, run_key: str | None, predecessor: str | None) -> dg.RunRequest:
    """Return the request of a run that builds the assets of a release."""
    keys = None if workspace.is_packaged(key) else [dg.AssetKey(asset.path) for asset in UNPACKAGED_ASSETS]
    config = {"ops": {"__".join(clinvar_changes.path): {"config": {"predecessor": predecessor}}}} if predecessor else {}
    return dg.RunRequest(
        run_key=run_key,
        job_name=refresh_release_job.name,
        partition_key=key,
        run_config=config,
        asset_selection=keys,
    )


def _count_runs(instance: dg.DagsterInstance, key: str, statuses: tuple[dg.DagsterRunStatus, ...] = ()) -> int:
    """Count the runs of ``refresh_release`` for a release; with ``statuses``, only runs in these statuses."""
    tags = {"dagster/partition": key}
    return instance.get_runs_count(dg.RunsFilter(job_name=refresh_release_job.name, tags=tags, statuses=statuses))


def _is_temporary(err: ResourceError) -> bool:
    """Tell whether an error may disappear by the next tick; a person has to repair corrupt or rejected resources."""
    return not isinstance(err, CorruptResourceError | RejectedResourceError)


@dg.sensor(
    job=refresh_release_job,
    minimum_interval_seconds=load_catalog(configured_catalog()).clinvar.listing_interval_s,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def clinvar_release_sensor(
    context: dg.SensorEvaluationContext, workspace: WorkspaceResource
) -> dg.SensorResult | dg.SkipReason:
    """Register every new ClinVar release of the catalogue's listing, and request refresh_release for the newest.

    Older releases are registered but not requested. A file that replaces another under the same name gets a new key. If
    the listing cannot be read, the next tick reads it again.
    """
    cursor = _Cursor.parse(context.cursor)
    try:
        opened = workspace.open()
        state = _read_releases(opened, context.log, cursor.arriving)
    except ResourceError as err:
        if not _is_temporary(err):
            raise
        context.log.warning(str(err))
        return dg.SkipReason(str(err))
    new = state.unregistered(context.instance)
    for release in state.known:
        if release.key in new:
            context.log.info(f"new release {release.key}: {release.file_name} ({release.identity})")
    requests = _newest_request(opened, context, state, _candidates(state, new, cursor))
    return dg.SensorResult(
        dynamic_partitions_requests=[clinvar_release_partitions.build_add_request(new)] if new else [],
        run_requests=requests,
        skip_reason=None if requests else f"nothing to request: {state}",
        cursor=_Cursor(newest=_newest(state, cursor), arriving=dict(state.arriving)).model_dump_json(),
    )


def _candidates(state: _ReleaseState, new: list[str], cursor: _Cursor) -> list[str]:
    newest = cursor.newest
    return [key for key in state.offered if key in new or (newest is not None and is_before(newest, key))]


def _newest(state: _ReleaseState, cursor: _Cursor) -> str | None:
    seen = [*state.offered, *([cursor.newest] if cursor.newest else [])]
    return max(seen, key=ReleaseKey.parse, default=None)


def _newest_request(
    workspace: Workspace, context: dg.SensorEvaluationContext, state: _ReleaseState, candidates: list[str]
) -> list[dg.RunRequest]:
    """Return a request for the newest candidate, or none if a newer release is published or it was requested before."""
    if not candidates:
        return []
    key = candidates[-1]
    published = [release.key for release in state.known if _is_published(workspace, clinvar_shard, release.key)]
    if any(is_before(key, other) for other in published):
        context.log.info(f"{key} is older than a published release: it is registered, but built only on request")
        return []
    if _count_runs(context.instance, key):
        context.log.info(f"{key} was requested before")
        return []
    earlier = [other for other in published if is_before(other, key)]
    return [_refresh(workspace, key, run_key=key, predecessor=earlier[-1] if earlier else None)]


@dg.schedule(
    cron_schedule="0 6 * * 2",
    execution_timezone="UTC",
    job=refresh_release_job,
    default_status=dg.DefaultScheduleStatus.RUNNING,
)
def clinvar_release_schedule(
    context: dg.ScheduleEvaluationContext, workspace: WorkspaceResource
) -> dg.RunRequest | dg.SkipReason:
    """Once a week, request refresh_release for the newest ClinVar release if it is not built yet.

    This replaces the sensor where it is off, and repeats runs that failed for a temporary reason. A release is built if
    its package is published or, if the catalogue does not package it, its shard.
    """
    try:
        opened = workspace.open()
        state = _read_releases(opened, context.log)
    except ResourceError as err:
        if not _is_temporary(err):
            raise
        context.log.warning(str(err))
        return dg.SkipReason(str(err))
    context.instance.add_dynamic_partitions(_PARTITIONS, state.unregistered(context.instance))
    if not state.offered:
        return dg.SkipReason(str(state))
    key = state.offered[-1]
    # A newer published release counts too: if its checksum cannot be read today, no older release must be requested.
    for release in state.known:
        product = packages_split if opened.is_packaged(release.key) else clinvar_shard
        if not is_before(release.key, key) and _is_published(opened, product, release.key):
            return dg.SkipReason(f"{product.key}[{release.key}] is published: {state}")
    if _count_runs(context.instance, key, tuple(status for status in dg.DagsterRunStatus if status not in _ENDED)):
        return dg.SkipReason(f"a run for {key} is in progress")
    # No predecessor is named, so that a release that was compared before keeps its predecessor.
    return _refresh(opened, key, run_key=None, predecessor=None)
