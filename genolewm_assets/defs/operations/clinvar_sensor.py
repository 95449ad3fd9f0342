"""New ClinVar releases: the sensor that registers them and requests the newest, and the weekly schedule behind it.

What is new follows from the record of releases in the root and the partitions in Dagster's instance, never from the
cursor alone: neither a restart nor a lost cursor registers or requests anything twice.
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

#: What is made of a release that the catalogue does not package.
UNPACKAGED_ASSETS = (clinvar_release, clinvar_shard, clinvar_changes)

#: Dagster ends a tick after 60 s; the next one tries again, so nothing is gained by waiting long.
_READ_WITHIN_S = 30.0
_ATTEMPTS, _PAUSE = 2, tenacity.wait_fixed(1)

_PARTITIONS = str(clinvar_release_partitions.name)
_ENDED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


class _Cursor(BaseModel):
    """What one tick leaves to the next.

    Attributes
    ----------
    newest
        Newest release that has been seen: one that comes after it is requested even where a crash between
        registration and request has left its partition behind.
    arriving
        Identities of new files without a published checksum, by name. One is complete when two ticks find it alike.
    """

    newest: Release | None = None
    arriving: dict[str, str] = Field(default_factory=dict)

    @classmethod
    def parse(cls, text: str | None) -> "_Cursor":
        """Read a cursor; one that is lost or cannot be read is a new one."""
        try:
            return cls.model_validate_json(text or "{}")
        except ValidationError:
            return cls()


@dataclass(frozen=True, slots=True)
class _Look:
    """What one look at the listing finds: releases known and, of these, keys offered now; oldest first."""

    known: tuple[RegisteredRelease, ...]
    offered: tuple[str, ...]
    arriving: Mapping[str, str]
    unfinished: Mapping[str, str]

    def unregistered(self, instance: dg.DagsterInstance) -> list[str]:
        """Return the keys that are no partitions yet."""
        registered = set(instance.get_dynamic_partitions(_PARTITIONS))
        return [release.key for release in self.known if release.key not in registered]

    def __str__(self) -> str:
        arriving = f"; not complete yet: {', '.join(sorted({*self.arriving, *self.unfinished}))}"
        newest = f", newest {self.offered[-1]}" if self.offered else ""
        return f"{len(self.offered)} offered{newest}{arriving if self.arriving or self.unfinished else ''}"


def _look(workspace: Workspace, log: logging.Logger, before: Mapping[str, str] | None = None) -> _Look:
    """Read the listing and record what is new; ``before`` are files that await a second look, None: take them."""
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
    return _Look(known, offered, arriving, listing.unfinished)


def _arriving(workspace: Workspace, listing: Listing, before: Mapping[str, str]) -> dict[str, str]:
    """Return the new files that no checksum vouches for, and that were not there alike before."""
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
    """Ask for everything that is made of a release."""
    keys = None if workspace.is_packaged(key) else [dg.AssetKey(asset.path) for asset in UNPACKAGED_ASSETS]
    config = {"ops": {"__".join(clinvar_changes.path): {"config": {"predecessor": predecessor}}}} if predecessor else {}
    return dg.RunRequest(
        run_key=run_key,
        job_name=refresh_release_job.name,
        partition_key=key,
        run_config=config,
        asset_selection=keys,
    )


def _runs(instance: dg.DagsterInstance, key: str, statuses: tuple[dg.DagsterRunStatus, ...] = ()) -> int:
    """Count the runs that were to refresh a release."""
    tags = {"dagster/partition": key}
    return instance.get_runs_count(dg.RunsFilter(job_name=refresh_release_job.name, tags=tags, statuses=statuses))


def _is_passing(err: ResourceError) -> bool:
    """Tell what may be better at the next tick from what a person has to repair."""
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

    Older ones are registered only: people request them. A file that is replaced under its name gets a key of its own. A
    listing that cannot be read is read again at the next tick.
    """
    cursor = _Cursor.parse(context.cursor)
    try:
        opened = workspace.open()
        look = _look(opened, context.log, cursor.arriving)
    except ResourceError as err:
        if not _is_passing(err):
            raise
        context.log.warning(str(err))
        return dg.SkipReason(str(err))
    new = look.unregistered(context.instance)
    for release in look.known:
        if release.key in new:
            context.log.info(f"new release {release.key}: {release.file_name} ({release.identity})")
    requests = _newest_request(opened, context, look, _candidates(look, new, cursor))
    return dg.SensorResult(
        dynamic_partitions_requests=[clinvar_release_partitions.build_add_request(new)] if new else [],
        run_requests=requests,
        skip_reason=None if requests else f"nothing to request: {look}",
        cursor=_Cursor(newest=_newest(look, cursor), arriving=dict(look.arriving)).model_dump_json(),
    )


def _candidates(look: _Look, new: list[str], cursor: _Cursor) -> list[str]:
    newest = cursor.newest
    return [key for key in look.offered if key in new or (newest is not None and is_before(newest, key))]


def _newest(look: _Look, cursor: _Cursor) -> str | None:
    seen = [*look.offered, *([cursor.newest] if cursor.newest else [])]
    return max(seen, key=ReleaseKey.parse, default=None)


def _newest_request(
    workspace: Workspace, context: dg.SensorEvaluationContext, look: _Look, candidates: list[str]
) -> list[dg.RunRequest]:
    """Request the newest candidate, unless a newer release stands already or somebody has asked for it before."""
    if not candidates:
        return []
    key = candidates[-1]
    published = [release.key for release in look.known if _is_published(workspace, clinvar_shard, release.key)]
    if any(is_before(key, other) for other in published):
        context.log.info(f"{key} is older than what is published: it is registered, and built when a person asks")
        return []
    if _runs(context.instance, key):
        context.log.info(f"{key} has been requested before")
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
    """Once a week, request refresh_release for the newest ClinVar release if it has no package yet.

    It stands in where the sensor is off, and repeats what failed for a reason that has gone.
    """
    try:
        opened = workspace.open()
        look = _look(opened, context.log)
    except ResourceError as err:
        if not _is_passing(err):
            raise
        context.log.warning(str(err))
        return dg.SkipReason(str(err))
    context.instance.add_dynamic_partitions(_PARTITIONS, look.unregistered(context.instance))
    if not look.offered:
        return dg.SkipReason(str(look))
    key = look.offered[-1]
    # Newer ones count too: a checksum that cannot be read today must not bring an older release up.
    for release in look.known:
        product = packages_split if opened.is_packaged(release.key) else clinvar_shard
        if not is_before(release.key, key) and _is_published(opened, product, release.key):
            return dg.SkipReason(f"{product.key}[{release.key}] is published: {look}")
    if _runs(context.instance, key, tuple(status for status in dg.DagsterRunStatus if status not in _ENDED)):
        return dg.SkipReason(f"a run for {key} is under way")
    # Without a predecessor named: what this release was compared with before, if it was, stands.
    return _refresh(opened, key, run_key=None, predecessor=None)
