"""Dagster's history of a root, opened to be read: nothing is created, migrated or written.

Dagster's own storages create folders and tables when they are opened, and files beside a database.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import dagster as dg
import sqlalchemy as db
import yaml

# Dagster has no public names for storages and for an instance that is made of given ones.
from dagster._core.instance import InstanceType
from dagster._core.instance.ref import InstanceRef
from dagster._core.launcher.sync_in_memory_run_launcher import SyncInMemoryRunLauncher
from dagster._core.run_coordinator import DefaultRunCoordinator
from dagster._core.storage.base_storage import DagsterStorage
from dagster._core.storage.event_log.base import EventLogStorage
from dagster._core.storage.event_log.sql_event_log import SqlEventLogStorage
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
from dagster._core.storage.noop_compute_log_manager import NoOpComputeLogManager
from dagster._core.storage.root import LocalArtifactStorage
from dagster._core.storage.runs.base import RunStorage
from dagster._core.storage.runs.sqlite.sqlite_run_storage import SqliteRunStorage
from dagster._core.storage.schedules.base import ScheduleStorage
from dagster._core.storage.schedules.sqlite.sqlite_schedule_storage import SqliteScheduleStorage
from dagster._serdes import ConfigurableClassData
from sqlalchemy.pool import NullPool

from genolewm_assets.defs import packed_events
from genolewm_assets.defs.run_databases import check_is_file, read_only_uri, shared_uri, state_of
from genolewm_assets.errors import ConfigurationError, MissingResourceError
from genolewm_assets.store.files import read_plain

#: Seconds to wait for a database that a running process writes.
_WAIT_S = 10.0
#: Setting of PostgreSQL that lets no statement of a session write.
_READ_ONLY = "-c default_transaction_read_only=on"


#: Databases that were seen to change while they were read. From then on all are opened as ones that others write:
#: SQLite may leave a log of changes beside them.
_WRITTEN: set[Path] = set()


@lru_cache(maxsize=64)
def _engine(path: Path) -> db.Engine:
    """Return the engine of a database; it keeps compiled statements and no connection."""

    def connect() -> sqlite3.Connection:
        uri = shared_uri(path) if _WRITTEN else read_only_uri(path)
        return sqlite3.connect(uri, uri=True, timeout=_WAIT_S, check_same_thread=False)

    return db.create_engine("sqlite://", creator=connect, poolclass=NullPool)


@contextmanager
def _connection(path: Path) -> Iterator[db.Connection]:
    """Open a database for one query, which has to be repeated (``OperationalError``) if a process wrote meanwhile."""
    if not path.is_file():
        raise MissingResourceError(str(path), "the history of this run was removed")
    before, shared = state_of(path), bool(_WRITTEN)
    with _engine(path).connect() as connection:
        yield connection
    if not shared and (not path.is_file() or state_of(path) != before):
        _WRITTEN.add(path)
        raise db.exc.OperationalError("a query", None, sqlite3.OperationalError(f"{path} changed while it was read"))


class _Runs(SqliteRunStorage):
    def __init__(self, path: Path) -> None:
        self._path = path
        super().__init__(str(path))

    def connect(self) -> Any:
        return _connection(self._path)


class _Events(SqliteEventLogStorage):
    """Events; the database of a run is opened when the run's events are asked for."""

    def _connect(self, shard: str) -> Any:
        return _connection(Path(self.path_for_shard(shard)))

    def has_table(self, table_name: str) -> bool:
        with self.index_connection() as connection:
            return db.inspect(connection).has_table(table_name)


class _Schedules(SqliteScheduleStorage):
    def __init__(self, path: Path) -> None:
        self._path = path
        super().__init__(str(path))

    def connect(self) -> Any:
        return _connection(self._path)


def open_read_only(home: Path) -> dg.DagsterInstance | None:
    """Open the history of a folder, or of the server in its ``dagster.yaml``, for queries; None if there is none."""
    packed_events.install()
    named = stated_storage(home)
    if "postgres" in named:
        storage = _on_server(home)
        log = storage.event_log_storage
        if not (isinstance(log, SqlEventLogStorage) and log.has_table("event_logs")):
            return None
        return _instance(home, storage.run_storage, storage.event_log_storage, storage.schedule_storage)
    if named.keys() - {"sqlite"}:
        raise ConfigurationError(
            str(home / "dagster.yaml"), "storage", expected="sqlite or postgres", got=", ".join(map(str, named))
        )
    base = Path(str((named.get("sqlite") or {}).get("base_dir", home)))
    runs, events = base / "history" / "runs.db", base / "history" / "runs"
    schedules = base / "schedules" / "schedules.db"
    for path in (runs, events / "index.db", schedules):
        check_is_file(path)
    if not (runs.is_file() and (events / "index.db").is_file()):
        return None
    ticks = _Schedules(schedules) if schedules.is_file() else None
    return _instance(home, _Runs(runs), _Events(str(events)), ticks)


def stated_storage(home: Path) -> Mapping[str, Any]:
    """Return the ``storage`` section of ``dagster.yaml`` in a folder; empty if there is none."""
    path = home / "dagster.yaml"
    if not path.is_file():
        return {}
    try:
        settings = yaml.safe_load(read_plain(path))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as err:
        raise ConfigurationError(str(path), f"cannot be read ({' '.join(str(err).split())})") from err
    storage = settings.get("storage") if isinstance(settings, dict) else None
    return storage if isinstance(storage, dict) else {}


def _on_server(home: Path) -> DagsterStorage:
    """Return Dagster's storage on PostgreSQL; its sessions cannot write unless the server is stated as a URL."""
    stated = InstanceRef.from_dir(str(home)).storage_data
    assert stated is not None
    config = yaml.safe_load(stated.config_yaml)
    if isinstance(server := config.get("postgres_db"), dict):  # not a URL, which may come from a variable
        params = server.get("params") or {}
        options = " ".join(filter(None, [params.get("options"), _READ_ONLY]))
        config["postgres_db"] = {**server, "params": {**params, "options": options}}
    config["should_autocreate_tables"] = False
    data = ConfigurableClassData(stated.module_name, stated.class_name, yaml.safe_dump(config))
    storage = data.rehydrate(as_type=DagsterStorage)  # type: ignore[type-abstract]  # only checks what it made
    assert storage is not None
    return storage


def _instance(
    home: Path, runs: RunStorage, events: EventLogStorage, ticks: ScheduleStorage | None
) -> dg.DagsterInstance:
    return dg.DagsterInstance(
        instance_type=InstanceType.EPHEMERAL,
        local_artifact_storage=LocalArtifactStorage(os.fspath(home)),
        run_storage=runs,
        event_storage=events,
        schedule_storage=ticks,
        compute_log_manager=NoOpComputeLogManager(),
        run_coordinator=DefaultRunCoordinator(),
        run_launcher=SyncInMemoryRunLauncher(),
    )
