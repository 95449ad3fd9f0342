"""Rows of Dagster's table of checks that say "failed" of a check that was not evaluated, or of a release that is past.

Dagster keeps one row per check, partition and run, also of a check that a failed run did not reach. Without that row
the check has the result of the published version, or none. The events of the run stay.
"""

from __future__ import annotations

from collections.abc import Iterable

import dagster as dg
import sqlalchemy as db

# Dagster has no public way to remove a row; the family is pinned, and tests run on its tables.
from dagster._core.events import AssetMaterializationPlannedData
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus as Status
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage

from genolewm_assets.store.artefacts import ArtefactId

_ROWS = AssetCheckExecutionsTable.c


def forget_unreached(instance: dg.DagsterInstance, run_id: str, assets: Iterable[dg.AssetKey]) -> None:
    """Remove the planned and not evaluated checks of some assets of a run; call it after a step of the run failed."""
    _remove(instance, assets, _ROWS.run_id == run_id, _ROWS.execution_status == Status.PLANNED.value)


def dismiss_releases(
    instance: dg.DagsterInstance, run: dg.DagsterRun, assets: Iterable[dg.AssetKey], releases: Iterable[str]
) -> list[ArtefactId]:
    """End the failures of some releases, in assets with one partition per release; return the partitions concerned."""
    ended, chosen = list[ArtefactId](), set(releases)
    for asset in assets:
        for partition in sorted(chosen & _failed_partitions(instance, asset).keys()):
            _end_results(instance, run, asset, partition)
            ended.append(ArtefactId(asset.to_user_string(), partition))
    return ended


def _end_results(instance: dg.DagsterInstance, run: dg.DagsterRun, asset: dg.AssetKey, partition: str) -> None:
    """End the failure of one partition; the run becomes the latest attempt at it, so it must end without a failure."""
    _remove(instance, [asset], _ROWS.partition == partition, _ROWS.execution_status != Status.SUCCEEDED.value)
    planned = AssetMaterializationPlannedData(asset, partition=partition)
    event = dg.DagsterEvent.build_asset_materialization_planned_event(run.job_name, "end_results", planned)
    instance.report_dagster_event(event, run.run_id)
    # Dagster keeps which partitions failed, and would add to that only.
    instance.wipe_asset_cached_status([asset])


def _failed_partitions(instance: dg.DagsterInstance, asset: dg.AssetKey) -> dict[str, str]:
    """Return the partitions whose latest build failed and materialised nothing, and the ids of the failed runs."""
    storage = instance.event_log_storage
    tried = storage.get_latest_asset_partition_materialization_attempts_without_materializations(asset)
    runs = {run_id for run_id, _ in tried.values()}
    wanted = dg.RunsFilter(run_ids=list(runs), statuses=[dg.DagsterRunStatus.FAILURE]) if runs else None
    failed = {run.run_id for run in instance.get_runs(wanted)} if wanted else set()
    return {partition: run_id for partition, (run_id, _) in tried.items() if partition and run_id in failed}


def checks_that_failed(instance: dg.DagsterInstance, checks: Iterable[dg.AssetCheckKey]) -> list[dg.AssetCheckKey]:
    """Return the checks of which a partition's latest evaluation failed; one query, where Dagster makes hundreds."""
    wanted, storage = list(checks), instance.event_log_storage
    if not isinstance(storage, SqlEventLogStorage):
        return wanted
    latest = db.select(db.func.max(_ROWS.id)).group_by(_ROWS.asset_key, _ROWS.check_name, _ROWS.partition)
    query = db.select(_ROWS.asset_key, _ROWS.check_name).where(
        _ROWS.id.in_(latest), _ROWS.execution_status == Status.FAILED.value
    )
    with storage.index_connection() as connection:
        found = {(key, name) for key, name in connection.execute(query)}
    return [each for each in wanted if (each.asset_key.to_string(), each.name) in found]


def _remove(instance: dg.DagsterInstance, assets: Iterable[dg.AssetKey], *which: db.ColumnElement[bool]) -> None:
    storage, names = instance.event_log_storage, [key.to_string() for key in assets]
    if isinstance(storage, SqlEventLogStorage):
        with storage.index_connection() as connection:
            connection.execute(AssetCheckExecutionsTable.delete().where(_ROWS.asset_key.in_(names), *which))
