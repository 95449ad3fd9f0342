"""``purge_old_runs``: what goes, what stays, and that nothing anybody asks of the instance changes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import sqlalchemy as db
from dagster._core.asset_graph_view.serializable_entity_subset import SerializableEntitySubset
from dagster._core.definitions.declarative_automation.serialized_objects import (
    AutomationConditionEvaluation,
    AutomationConditionNodeSnapshot,
)
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.storage.compute_log_manager import ComputeIOType
from dagster._core.storage.runs.schema import RunsTable
from dagster._core.storage.schedules.schema import AssetDaemonAssetEvaluationsTable

from genolewm_assets.defs.operations import old_runs
from genolewm_assets.defs.operations.old_runs import purge_old_runs_job
from genolewm_assets_tests.defs.conftest import copied
from genolewm_assets_tests.worlds.graph.built_world import QUIET, Automation, BuiltWorld, instance_in
from genolewm_assets_tests.worlds.graph.tiny_world import CONTIGS, RELEASES

world = copied
PARTS = dg.StaticPartitionsDefinition(["a", "b"])

with warnings.catch_warnings():
    warnings.simplefilter("ignore", dg.PreviewWarning)
    SPEC = dg.AssetCheckSpec("fact", asset="checked", blocking=True, partitions_def=PARTS)


class History:
    """Runs of a small graph, by the order in which they happened."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self.instance = instance
        self.works = True
        self.looked_at = ""
        history = self

        @dg.asset(partitions_def=PARTS, check_specs=[SPEC], code_version="1")
        def checked() -> Iterator[dg.AssetCheckResult | dg.MaterializeResult[None]]:
            result = dg.AssetCheckResult(passed=history.works, asset_key="checked", check_name="fact")
            if not history.works:
                yield result
                raise dg.Failure("the check failed")
            yield dg.MaterializeResult(check_results=[result])

        @dg.asset(partitions_def=PARTS, deps=[checked], code_version="1")
        def derived() -> None:
            assert history.works

        @dg.op
        def work() -> None:
            assert history.works

        @dg.job
        def chore() -> None:
            work()

        @dg.op(out=dg.Out(dg.Nothing))
        def look() -> Iterator[dg.AssetCheckEvaluation | dg.Output[None]]:
            for partition in history.looked_at:
                key = dg.AssetKey("checked")
                yield dg.AssetCheckEvaluation(asset_key=key, check_name="fact", passed=True, partition=partition)
            yield dg.Output(None)

        @dg.job
        def survey() -> None:
            look()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)

            @dg.multi_observable_source_asset(specs=[dg.AssetSpec("outside")])
            def outside() -> Iterator[dg.ObserveResult]:
                assert history.works
                yield dg.ObserveResult("outside", data_version=dg.DataVersion("1"))

        self._assets = [checked, derived, outside]
        self._graph = dg.Definitions(assets=self._assets, jobs=[chore, survey, purge_old_runs_job])

    def make(self, *keys: str, partition: str | None = "a", works: bool = True, **options: Any) -> str:
        """Run assets as the UI would; returns the run's id."""
        self.works = works
        job = self._graph.resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(
            instance=self.instance,
            partition_key=partition,
            asset_selection=[dg.AssetKey(key) for key in keys],
            **{"run_config": QUIET, "raise_on_error": False, **options},
        )
        assert result.success is works
        return result.run_id

    def survey(self, partitions: str) -> str:
        """Evaluate the check of some partitions, as ``verify_all`` does."""
        self.looked_at = partitions
        return self.chore("survey")

    def chore(self, name: str = "chore", *, works: bool = True) -> str:
        self.works = works
        return self._run(name, works=works).run_id

    def purge(self, **config: object) -> dg.ExecuteInProcessResult:
        ops = {"delete_superseded_runs": {"config": {"older_than_days": 0.0, **config}}}
        return self._run("purge_old_runs", ops=ops)

    def _run(self, name: str, *, works: bool = True, **config: object) -> dg.ExecuteInProcessResult:
        job = self._graph.resolve_job_def(name)
        result = job.execute_in_process(instance=self.instance, run_config={**QUIET, **config}, raise_on_error=False)
        assert result.success is works
        return result

    def left(self, *run_ids: str) -> list[bool]:
        return [self.instance.has_run(run_id) for run_id in run_ids]

    def kept(self, *run_ids: str, **config: object) -> list[bool]:
        """Purge, and tell which runs are left."""
        self.purge(**config)
        return self.left(*run_ids)


@pytest.fixture
def history() -> Iterator[History]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield History(instance)


@pytest.fixture
def history_on_disk(tmp_path: Path) -> Iterator[History]:
    """A history as it is kept: each run has a database of its own."""
    with instance_in(tmp_path) as instance:
        yield History(instance)


def test_a_run_goes_when_another_made_the_same_later(history_on_disk: History) -> None:
    history = history_on_disk
    first, other, second = history.make("checked"), history.make("checked", partition="b"), history.make("checked")
    assert history.kept(first, other, second) == [False, True, True]
    assert history.instance.all_logs(first) == []


def test_a_run_stays_for_any_one_thing_that_only_it_made(history: History) -> None:
    both, one = history.make("checked", "derived"), history.make("checked")
    assert history.kept(both, one) == [True, True]
    history.make("derived")
    assert history.kept(both, one) == [False, True]


def test_a_failed_run_stays_while_it_is_the_last_word(history: History) -> None:
    failed, good = history.make("checked", works=False), history.make("checked")
    assert history.kept(failed, good) == [False, True]
    failed = history.make("checked", works=False)
    assert history.kept(good, failed) == [True, True]
    history.make("checked")
    assert history.kept(good, failed) == [False, False]


def test_a_run_that_failed_before_it_said_anything(history: History) -> None:
    failed = history.make("derived", works=False)
    assert history.kept(failed) == [True]
    for partition in ("b", "a"):
        history.make("derived", partition=partition)
        assert history.kept(failed) == [partition == "b"]


def test_observations(history: History) -> None:
    first = history.make("outside", partition=None)
    failed = history.make("outside", partition=None, works=False)
    assert history.kept(first, failed) == [True, True]
    second = history.make("outside", partition=None)
    assert history.kept(first, failed, second) == [False, False, True]


def test_a_job_without_assets_goes_when_it_succeeded_again(history: History) -> None:
    good, failed = history.chore(), history.chore(works=False)
    assert history.kept(good, failed) == [True, True]
    again = history.chore()
    assert history.kept(good, failed, again) == [False, False, True]


def test_a_run_stays_for_a_check_that_only_it_evaluated(history: History) -> None:
    both, one = history.survey("ab"), history.survey("a")
    assert history.kept(both, one) == [True, True]
    other = history.survey("b")
    assert history.kept(both, one, other) == [False, True, True]


def test_a_dry_run_counts_and_deletes_nothing(history: History) -> None:
    first, second = history.make("checked"), history.make("checked")
    result = history.purge(dry_run=True)
    assert history.left(first, second) == [True, True]
    assert counts(result) == {"deleted": 1, "kept": 1, "dry_run": True}
    # The dry run itself is replaced by this one only after it has ended.
    assert counts(history.purge()) == {"deleted": 1, "kept": 2, "dry_run": False}


def counts(result: dg.ExecuteInProcessResult) -> dict[str, object]:
    (event,) = [event for event in result.all_events if event.event_type_value == "STEP_OUTPUT"]
    return {name: value.value for name, value in event.step_output_data.metadata.items()}


def make_older(history: History, run_id: str, days: float, *, took_days: float = 0) -> None:
    """Move a run into the past, which Dagster itself never does."""
    ended = datetime.now(UTC) - timedelta(days=days)
    created = (ended - timedelta(days=took_days)).replace(tzinfo=None)
    values = {"create_timestamp": created, "end_time": ended.timestamp()}
    with history.instance.run_storage.connect() as connection:
        connection.execute(db.update(RunsTable).where(RunsTable.c.run_id == run_id).values(**values))


def test_only_runs_that_ended_long_enough_ago_go(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(old_runs, "_LISTED_AT_ONCE", 2)
    runs = [history.make("checked") for _ in range(5)]
    for run_id, days in zip(runs, (40, 29.9, 30.1, 29.9, 0), strict=True):
        make_older(history, run_id, days, took_days=20 if run_id == runs[3] else 0)
    assert history.kept(*runs, older_than_days=30.0) == [False, True, False, True, True]


@pytest.mark.parametrize("status", [BulkActionStatus.REQUESTED, BulkActionStatus.COMPLETED_SUCCESS])
def test_a_run_that_a_backfill_still_counts_stays(history: History, status: BulkActionStatus) -> None:
    backfill = PartitionBackfill(
        backfill_id="one", status=status, from_failure=False, tags={}, backfill_timestamp=0.0, asset_selection=[]
    )
    history.instance.add_backfill(backfill)
    first = history.make("checked", tags={"dagster/backfill": "one"})
    history.make("checked")
    assert history.kept(first) == [status is BulkActionStatus.REQUESTED]


def test_captured_output_goes_with_the_run(history_on_disk: History) -> None:
    history = history_on_disk
    first = history.make("checked")
    manager = history.instance.compute_log_manager
    with manager.open_log_stream([first, "compute_logs", "checked"], ComputeIOType.STDOUT) as stream:
        stream.write("said\n")
    kept = Path(manager.get_captured_local_path([first, "compute_logs", "checked"], "out")).parents[1]
    assert kept.is_dir()
    history.make("checked")
    history.purge()
    assert not kept.exists()


def test_evaluations_of_over_a_week_ago_go(history_on_disk: History) -> None:
    storage = history_on_disk.instance.schedule_storage
    for number in (1, 2):
        node = AutomationConditionNodeSnapshot("Condition", "", "an id")
        subset = SerializableEntitySubset(key=dg.AssetKey("checked"), value=False)
        evaluation = AutomationConditionEvaluation(node, 0.0, 0.0, subset, subset, [], [])
        storage.add_auto_materialize_asset_evaluations(number, [evaluation.with_run_ids(set())])
    table, eight_days_ago = AssetDaemonAssetEvaluationsTable, datetime.now(UTC) - timedelta(days=8)
    with storage.connect() as database:
        old = table.update().where(table.c.evaluation_id == 1).values(create_timestamp=eight_days_ago)
        database.execute(old)

    def kept() -> list[int]:
        found = storage.get_auto_materialize_asset_evaluations(dg.AssetKey("checked"), limit=9)
        return [record.evaluation_id for record in found]

    history_on_disk.purge(dry_run=True)
    assert kept() == [2, 1]
    history_on_disk.purge()
    assert kept() == [2]
    history_on_disk.purge(evaluations_days=0)
    assert kept() == []


def latest_of_everything(world: BuiltWorld) -> dict[object, object]:
    """Return what the UI, freshness and automation go by."""
    graph, instance = world.graph.resolve_asset_graph(), world.instance
    latest: dict[object, object] = {}
    for key in graph.get_all_asset_keys():
        partitions = sorted(instance.get_materialized_partitions(key)) or [None]
        for partition in partitions:
            record = instance.get_latest_data_version_record(key, partition_key=partition)
            latest[key, partition] = record and (record.storage_id, record.run_id, record.timestamp)
    for info in instance.event_log_storage.get_asset_check_partition_info(list(graph.asset_check_keys)):
        latest[info.check_key, info.partition_key] = info
    return latest


@pytest.mark.nightly
def test_nothing_that_anybody_asks_for_changes(world: BuiltWorld) -> None:
    """On the whole graph, with partitions built twice, one that failed since, observations and verifications."""
    for contig in CONTIGS:
        world.materialize("gnomad/shard", partition=contig)
    world.write_gnomad("chr20", world.gnomad_records("chr20", wrong_ref=5))
    assert not world.materialize("gnomad/shard", partition="chr20").success
    for _ in range(2):
        world.run_job("observe_sources")
        world.run_job("verify_all")
    world.run_job("refresh_release", partition_key=RELEASES[0])
    automation = Automation(world)
    automation.tick()
    before, runs = latest_of_everything(world), world.instance.get_runs_count()

    config = {"ops": {"delete_superseded_runs": {"config": {"older_than_days": 0.0}}}}
    assert world.run_job("purge_old_runs", run_config={**QUIET, **config}).success
    assert latest_of_everything(world) == before
    assert automation.tick() == ({}, {})
    holders = {value[1] for value in before.values() if type(value) is tuple}
    assert all(world.instance.has_run(run_id) for run_id in holders)
    # The first builds of four shards, the first observation and the first verification; the purge itself came on top.
    assert world.instance.get_runs_count() == runs - 6 + 1
