"""The history of a root: what Dagster stored is read back, in few bytes, and what its own storage wrote is usable."""

import sqlite3
import time
import warnings
import zlib
from collections.abc import Iterator
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from unittest import mock

import dagster as dg
import pytest
from dagster._core.instance.ref import InstanceRef

from genolewm_assets.defs.packed_events import pack, unpack
from genolewm_assets.defs.read_only_instance import open_read_only
from genolewm_assets.defs.run_storage import RootStorage, create_run_database
from genolewm_assets_tests.places import REPOSITORY

PIECES = dg.StaticPartitionsDefinition([f"piece-{number:05d}" for number in range(3)])
FACTS = [f"fact_{number}_holds" for number in range(8)]
TEXT = "value of an entry, " * 40


with warnings.catch_warnings():
    warnings.simplefilter("ignore", dg.PreviewWarning)  # partitioned checks
    SPECS = [dg.AssetCheckSpec(name, asset="made", partitions_def=PIECES) for name in FACTS]


@dg.asset(partitions_def=PIECES, check_specs=SPECS)
def made(context: dg.AssetExecutionContext) -> Iterator[dg.MaterializeResult[None]]:
    context.log.info("said in between")
    results = [dg.AssetCheckResult(check_name=name, passed=True, metadata={"rows": 3}) for name in FACTS]
    yield dg.MaterializeResult(metadata={"text": TEXT, "rows": 3}, check_results=results)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "dagster.yaml").write_text((REPOSITORY / "dagster.yaml").read_text())
    return tmp_path


@pytest.fixture
def instance(home: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.from_config(str(home)) as opened:
        yield opened


def build(instance: dg.DagsterInstance, piece: str) -> str:
    return dg.materialize([made], instance=instance, partition_key=piece).run_id


def shards(home: Path) -> list[Path]:
    return list((home / "history/runs").glob("*-*.db"))


def test_a_run_is_read_back_in_few_bytes(home: Path, instance: dg.DagsterInstance) -> None:
    first, *others = PIECES.get_partition_keys()
    run_id = build(instance, first)
    index = home / "history/runs/index.db"
    before = index.stat().st_size
    for piece in others:
        build(instance, piece)
    added = (index.stat().st_size - before) / len(others)
    assert max(path.stat().st_size for path in shards(home)) + added < 45_000
    for opened in (instance, open_read_only(home)):
        logged = opened.all_logs(run_id)
        assert any("said in between" in entry.user_message for entry in logged)
        (event,) = [entry for entry in logged if entry.asset_materialization]
        assert event.asset_materialization.metadata["text"].value == TEXT
        found = opened.fetch_materializations(dg.AssetKey("made"), limit=9).records
        assert [record.partition_key for record in found] == [*reversed(others), first]
        history = opened.event_log_storage.get_asset_check_execution_history(
            dg.AssetCheckKey(dg.AssetKey("made"), FACTS[0]), limit=9
        )
        assert [check.event.dagster_event.asset_check_evaluation_data.passed for check in history] == [True] * 3


def test_what_is_stored_of_a_text_is_told_apart() -> None:
    text = '{"__class__": "EventLogEntry", "message": "é", "level": 10}'
    assert unpack(pack(text)) == text
    with pytest.raises(zlib.error, match="newer version"):
        unpack(b"\x02" + pack(text)[1:])


def test_the_history_of_dagster_s_own_storage_goes_on(home: Path) -> None:
    first, second, _ = PIECES.get_partition_keys()
    settings, own_storage = home / "dagster.yaml", InstanceRef.config_defaults(str(home))["storage"]
    settings.rename(home / "later.yaml")
    with dg.DagsterInstance.local_temp(str(home)) as own:
        assert own.get_ref().storage_data == own_storage
        old = build(own, first)
        large = shards(home)[0].stat().st_size
    (home / "later.yaml").rename(settings)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        assert instance.get_ref().storage_data.class_name == RootStorage.__name__
        assert instance.all_logs(old)
        assert instance.get_latest_materialization_event(dg.AssetKey("made")).run_id == old
        build(instance, second)
        # An engine event of a run that began before.
        instance.report_engine_event("later", instance.get_run_by_id(old))
        assert instance.all_logs(old)[-1].message == "later"
        assert min(path.stat().st_size for path in shards(home)) < large / 4
        instance.upgrade()
        assert instance.all_logs(old)


def test_two_processes_may_create_the_database_of_a_run(tmp_path: Path) -> None:
    path = tmp_path / "run.db"
    spawned = get_context("spawn")
    processes = [spawned.Process(target=create_run_database, args=(path, "revision")) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT version_num FROM alembic_version").fetchall() == [("revision",)]


def test_the_keys_of_partitions_are_read_together_and_a_new_one_is_known_at_once(home: Path) -> None:
    with dg.DagsterInstance.from_config(str(home)) as ours, dg.DagsterInstance.from_config(str(home)) as other:
        other.add_dynamic_partitions("piece", ["first", "second"])
        with mock.patch.object(ours, "get_dynamic_partitions", wraps=ours.get_dynamic_partitions) as read:
            assert ours.has_dynamic_partition("piece", "first")
            assert ours.has_dynamic_partition("piece", "second")
            assert read.call_count == 1
        other.add_dynamic_partitions("piece", ["third"])
        assert ours.has_dynamic_partition("piece", "third")
        assert not ours.has_dynamic_partition("source", "first")
        other.delete_dynamic_partition("piece", "third")
        with mock.patch("time.monotonic", return_value=time.monotonic() + 2):
            assert not ours.has_dynamic_partition("piece", "third")
