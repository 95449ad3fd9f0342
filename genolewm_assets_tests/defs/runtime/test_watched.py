"""Which releases automation asks for, and what it writes: a day with a hundred releases."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.definitions.asset_daemon_cursor import AssetDaemonCursor
from dagster._core.definitions.automation_tick_evaluation_context import AutomationTickEvaluationContext
from dagster._core.definitions.declarative_automation.serialized_objects import AutomationConditionEvaluation
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.events import AssetMaterializationPlannedData
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.utils import make_new_run_id

from genolewm_assets.definitions import defs
from genolewm_assets.defs.runtime.automation import AUTOMATED, REBUILT, RECOMPUTED, cpu_automation_sensor
from genolewm_assets.defs.runtime.partitions import clinvar_release_partitions
from genolewm_assets.defs.runtime.watched import NEWEST
from genolewm_assets_tests.worlds.graph.built_world import instance_in
from genolewm_assets_tests.worlds.graph.tiny_world import CONTIGS

#: Registered in another order than that of their dates.
RELEASES = ["2025-03-02", "2025-01-05", "2025-02-02.10", "2025-02-02.9", "2025-01-12"]
BY_DATE = ["2025-01-05", "2025-01-12", "2025-02-02.9", "2025-02-02.10", "2025-03-02"]
RELEASED = str(clinvar_release_partitions.name)


class Watch:
    """The automation of a graph on an instance, a tick at a time; what it stores is stored as the daemon does."""

    def __init__(self, instance: dg.DagsterInstance, graph: dg.Definitions, selection: dg.AssetSelection) -> None:
        self._instance, self._graph, self._selection = instance, graph.resolve_asset_graph(), selection
        self._cursor, self._versions = AssetDaemonCursor.empty(), 0

    def record(self, asset: str, *partitions: str | None) -> None:
        """Report materialisations with new data versions; None stands for an asset without partitions."""
        for partition in partitions:
            self._versions += 1
            tags = {"dagster/data_version": f"v{self._versions}"}
            event = dg.AssetMaterialization(asset.split("/"), partition=partition, tags=tags)
            self._instance.report_runless_asset_event(event)

    def tick(self) -> tuple[dict[str, set[str]], list[AutomationConditionEvaluation[dg.AssetKey]]]:
        """Return the releases that a tick asks for, by asset, and the evaluations that it stores."""
        number = self._cursor.evaluation_id + 1
        requests, self._cursor, evaluations = AutomationTickEvaluationContext(
            evaluation_id=number,
            instance=self._instance,
            asset_graph=self._graph,
            cursor=self._cursor,
            materialize_run_tags={},
            observe_run_tags={},
            auto_observe_asset_keys=set(),
            asset_selection=self._selection,
            emit_backfills=False,
            logger=logging.getLogger("quiet"),
        ).evaluate()
        if (storage := self._instance.schedule_storage) is not None:
            with partition_loading_context(dynamic_partitions_store=self._instance):
                stored = [each.with_run_ids(set()) for each in evaluations]
                storage.add_auto_materialize_asset_evaluations(number, stored)
        asked: dict[str, set[str]] = {}
        for request in requests:
            for key in request.asset_selection or ():
                asked.setdefault(key.to_user_string(), set()).add(str(request.partition_key))
        return asked, list(evaluations)


def small(condition: dg.AutomationCondition[dg.AssetKey]) -> dg.Definitions:
    """Return a graph of two assets by release, of which the second has a condition."""

    @dg.asset(partitions_def=clinvar_release_partitions, code_version="1")
    def read() -> None: ...

    @dg.asset(partitions_def=clinvar_release_partitions, deps=[read], automation_condition=condition, code_version="1")
    def made() -> None: ...

    return dg.Definitions(assets=[read, made])


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        made.add_dynamic_partitions(RELEASED, RELEASES)
        yield made


@pytest.mark.parametrize(
    ("condition", "built", "asked"),
    [
        *((condition, BY_DATE, BY_DATE[-3:]) for condition in (RECOMPUTED, REBUILT, AUTOMATED)),
        # Of what is built, the newest are looked at too: not every release has a package.
        (REBUILT, BY_DATE[:2], BY_DATE[:2]),
        (REBUILT, [BY_DATE[0], *BY_DATE[2:]], BY_DATE[-3:]),
    ],
)
def test_a_changed_input_rebuilds_the_newest_releases(
    instance: dg.DagsterInstance, condition: dg.AutomationCondition[dg.AssetKey], built: list[str], asked: list[str]
) -> None:
    watch = Watch(instance, small(condition), dg.AssetSelection.all())
    watch.record("read", *RELEASES)
    watch.record("made", *built)
    assert [watch.tick()[0] for _ in range(2)] == [{}, {}]
    watch.record("read", *RELEASES)
    assert [watch.tick()[0] for _ in range(2)] == [{"made": set(asked)}, {}]


def test_a_new_release_is_asked_for_and_an_old_one_that_is_registered_late_is_not(instance: dg.DagsterInstance) -> None:
    watch = Watch(instance, small(AUTOMATED), dg.AssetSelection.all())
    for asset in ("read", "made"):
        watch.record(asset, *RELEASES)
    assert watch.tick()[0] == {}
    for release in ("2024-01-07", "2025-04-06"):
        instance.add_dynamic_partitions(RELEASED, [release])
        watch.record("read", release)
    assert watch.tick()[0] == {"made": {"2025-04-06"}}


def test_what_is_stored_names_what_is_waited_for_and_does_not_grow_with_releases() -> None:
    sizes = []
    for number in (4, 40):
        with dg.DagsterInstance.ephemeral() as instance:
            keys = weeks(number)
            instance.add_dynamic_partitions(RELEASED, keys)
            watch = Watch(instance, small(REBUILT), dg.AssetSelection.all())
            watch.record("read", *keys)
            # Every second one is built: of such releases Dagster lists every single one.
            watch.record("made", *keys[::2])
            watch.tick()
            watch.record("read", keys[-2])
            asked, (stored,) = watch.tick()
            sizes.append(len(dg.serialize_value(stored)))
            assert sum(map(len, asked.values())) <= NEWEST
    shown = {node.condition_snapshot.label or node.condition_snapshot.name for node in stored.iter_nodes()}
    assert {"was built before", "waits until every input exists", "an input is itself due to be rebuilt"} <= shown
    # The input of which something is true; whether a part of it changed within the tick is not kept.
    assert "read" in shown
    assert not shown & {"SINCE", "newly_updated", "ANY_DEPS_MATCH"}
    assert sizes[1] < 1.2 * sizes[0]


def weeks(number: int) -> list[str]:
    return [f"{date(2023, 1, 1) + timedelta(weeks=week)}" for week in range(number)]


def test_a_tick_in_which_nothing_happened_stores_nothing_and_one_of_the_graph_is_small() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(RELEASED, RELEASES)
        watch = Watch(instance, defs, cpu_automation_sensor.asset_selection)
        _, stored = watch.tick()
        # Half a megabyte for a package where all parts are kept.
        assert max(len(dg.serialize_value(each)) for each in stored) < 30_000
        watch.tick()
        assert watch.tick() == ({}, [])


def test_the_sensor_asks_in_the_code_server_and_writes_no_log() -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(instance=instance, repository_def=defs.get_repository_def())
        found = cpu_automation_sensor.evaluate_tick(context)
        assert found.cursor
        assert found.log_key is None
        assert cpu_automation_sensor.run_tags["dagster/from_automation_condition"] == "true"


def test_where_nothing_happened_the_sensor_evaluates_one_tick_in_twenty(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_automation_sensor, "_state", None)
    repository = defs.get_repository_def()
    cursor = None

    def tick() -> bool:
        nonlocal cursor
        context = dg.build_sensor_context(instance=instance, repository_def=repository, cursor=cursor)
        found = cpu_automation_sensor.evaluate_tick(context)
        before, cursor = cursor, found.cursor
        assert cursor
        assert (found.skip_message or "").startswith("nothing happened") == (before == cursor)
        return bool(before != cursor)

    assert [number for number in range(22) if tick()] == [0, 1, 2, 20]
    for change in changes(instance):
        change()
        assert tick(), change.__name__
    assert [tick() for _ in range(3)] == [True, True, False]
    # A sensor that was reset begins anew.
    cursor = None
    assert tick()


def changes(instance: dg.DagsterInstance) -> Iterator[Callable[[], object]]:
    """Yield one change of each kind that a condition can ask for."""
    genome, run_id = dg.AssetKey(["reference", "genome"]), make_new_run_id()

    def begin() -> None:
        instance.add_run(dg.DagsterRun(job_name="job", run_id=run_id, status=dg.DagsterRunStatus.STARTED))

    def fail() -> None:
        run = instance.get_run_by_id(run_id)
        assert run is not None
        instance.report_run_failed(run)

    def plan() -> None:
        planned = AssetMaterializationPlannedData(genome, partition=None)
        event = dg.DagsterEvent.build_asset_materialization_planned_event("job", "step", planned)
        instance.report_dagster_event(event, run_id)

    def evaluate() -> None:
        instance.report_runless_asset_event(dg.AssetCheckEvaluation(genome, "schema_as_declared", False))

    def backfill(status: BulkActionStatus) -> PartitionBackfill:
        return PartitionBackfill("backfill", status, from_failure=False, tags={}, backfill_timestamp=1.0)

    yield lambda: instance.report_runless_asset_event(dg.AssetMaterialization(genome))
    yield lambda: instance.report_runless_asset_event(dg.AssetMaterialization(["windows", "index"], partition="chr17"))
    yield lambda: instance.report_runless_asset_event(dg.AssetObservation(["reference", "source"]))
    yield evaluate
    yield lambda: instance.add_dynamic_partitions(RELEASED, ["2026-01-04"])
    yield lambda: instance.delete_dynamic_partition(RELEASED, "2026-01-04")
    yield lambda: instance.add_dynamic_partitions("corpus_piece", ["mrna_evo2-00000"])
    yield begin
    yield plan
    yield fail
    yield lambda: instance.add_backfill(backfill(BulkActionStatus.REQUESTED))
    yield lambda: instance.update_backfill(backfill(BulkActionStatus.COMPLETED_SUCCESS))
    # Not the latest event.
    yield lambda: instance.wipe_assets([genome])


#: Assets of a release in the order in which ``refresh_release`` makes them.
OF_A_RELEASE = (
    *("clinvar/release", "clinvar/shard", "clinvar/changes", "mito/variants"),
    *("holdouts/manifest", "packages/split", "packages/audit"),
)
TICKS_OF_A_DAY = 24 * 60 * 2
#: Bytes of a tick in ``job_ticks`` with its row and indexes, measured with those of the daemon.
TICK_BYTES = 1_100


@pytest.mark.nightly
def test_a_day_with_a_hundred_releases_takes_less_than_20_mb(tmp_path: Path) -> None:
    """A release, then another version of a contig and what follows from it; each event with a tick of its own."""
    keys = weeks(100)
    with instance_in(tmp_path) as instance:
        instance.add_dynamic_partitions(RELEASED, keys)
        watch = Watch(instance, defs, cpu_automation_sensor.asset_selection)
        for asset in ("reference/genome", "mito/genomes", "mito/tokens", "packages/current"):
            watch.record(asset, None)
        watch.record("gnomad/shard", *CONTIGS)
        for asset in OF_A_RELEASE:
            watch.record(asset, *keys[:-1])
        events = [(asset, keys[-1]) for asset in OF_A_RELEASE] + [("gnomad/shard", CONTIGS[0])]
        events += [(asset, key) for asset in OF_A_RELEASE[4:] for key in keys[-NEWEST:]]
        # As often as a person rebuilds old ones.
        events += [(asset, key) for asset in OF_A_RELEASE[1:4] for key in keys[:9:3]]
        watch.tick()
        for asset, partition in events:
            watch.record(asset, partition)
            for _ in range(2):
                watch.tick()
        assert watch.tick()[1] == watch.tick()[1] == []
    with sqlite3.connect(tmp_path / "schedules/schedules.db") as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    written = (tmp_path / "schedules/schedules.db").stat().st_size
    assert written + TICKS_OF_A_DAY * TICK_BYTES < 10_000_000
