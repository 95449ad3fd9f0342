"""Records every partition of the graph as built, by a run of its own with its checks, without building it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import dagster as dg
import sqlalchemy as db
from dagster._core.definitions.asset_checks.asset_check_evaluation import AssetCheckEvaluationTargetMaterializationData
from dagster._core.events import AssetMaterializationPlannedData, StepMaterializationData
from dagster._core.storage.event_log.schema import SqlEventLogStorageMetadata
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME, SqliteEventLogStorage
from dagster._core.utils import make_new_run_id

from benchmarks.orchestration.inputs import PIECES, RELEASES
from genolewm_assets.defs.assets import GATED
from genolewm_assets.defs.runtime import GatedAsset
from genolewm_assets.windows.corpus import piece_keys

_JOB = "__ASSET_JOB"


def record_history(instance: dg.DagsterInstance) -> int:
    """Register all pieces and releases, record every partition, and return the number of partitions."""
    instance.add_dynamic_partitions("clinvar_release", list(RELEASES))
    for source, pieces in PIECES.items():
        instance.add_dynamic_partitions("corpus_piece", list(piece_keys(source, pieces)))
    parts = [(asset, key) for asset in GATED.values() for key in asset.partitions.keys(instance)]
    with _one_transaction(instance):
        for asset, partition in parts:
            record_partition(instance, asset, partition)
    return len(parts)


def record_partition(instance: dg.DagsterInstance, asset: GatedAsset, partition: str | None) -> None:
    """Add a run that succeeded, and its events that say something of the asset."""
    run_id, log, key = make_new_run_id(), instance.event_log_storage, dg.AssetKey(asset.path)
    tags = {} if partition is None else {"dagster/partition": partition}
    run = dg.DagsterRun(_JOB, run_id, status=dg.DagsterRunStatus.SUCCESS, tags=tags, asset_selection=frozenset({key}))
    instance.add_run(run)
    made = {"dagster/data_version": f"sha256:{run_id}", "dagster/code_version": "1"}
    materialization = dg.AssetMaterialization(key, partition=partition, tags=made)
    log.store_event(
        _entry(run_id, key, "ASSET_MATERIALIZATION_PLANNED", AssetMaterializationPlannedData(key, partition))
    )
    log.store_event(_entry(run_id, key, "ASSET_MATERIALIZATION", StepMaterializationData(materialization)))
    stored = log.get_maximum_record_id()
    assert stored is not None
    target = AssetCheckEvaluationTargetMaterializationData(storage_id=stored, run_id=run_id, timestamp=time.time())
    for check in (*asset.check_names, *asset.advisory_names):
        evaluated = dg.AssetCheckEvaluation(
            asset_key=key,
            check_name=str(check),
            passed=True,
            metadata={},
            target_materialization_data=target,
            partition=partition,
        )
        log.store_event(_entry(run_id, key, "ASSET_CHECK_EVALUATION", evaluated))


def _entry(run_id: str, key: dg.AssetKey, kind: str, data: object) -> dg.EventLogEntry:
    step = "__".join(key.path)
    event = dg.DagsterEvent(kind, _JOB, step_key=step, event_specific_data=data)
    return dg.EventLogEntry(None, "debug", "", run_id, time.time(), step_key=step, job_name=_JOB, dagster_event=event)


@contextmanager
def _one_transaction(instance: dg.DagsterInstance) -> Iterator[None]:
    """Write all events into the index of the event log in one transaction; the runs get no database of their own."""
    storage, apart = instance.event_log_storage, db.create_engine("sqlite://")
    assert isinstance(storage, SqliteEventLogStorage)
    SqlEventLogStorageMetadata.create_all(apart)
    with storage.index_connection() as index, apart.connect() as runs:

        @contextmanager
        def connect(shard: str) -> Iterator[db.Connection]:
            yield index if shard == INDEX_SHARD_NAME else runs

        with mock.patch.object(storage, "_connect", connect):
            yield
