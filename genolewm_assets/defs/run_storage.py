"""SQLite storage of a root: Dagster's files, with small databases of runs, and engines that are kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import sqlalchemy as db
import tenacity

# Dagster has no public names for its storages.
from dagster._core.storage.event_log.schema import SqlEventLogStorageTable
from dagster._core.storage.event_log.sqlite.sqlite_event_log import INDEX_SHARD_NAME, SqliteEventLogStorage
from dagster._core.storage.runs.sqlite.sqlite_run_storage import SqliteRunStorage
from dagster._core.storage.sqlite import SQLITE_BUSY_TIMEOUT_SECONDS, create_db_conn_string
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData
from sqlalchemy.pool import NullPool

#: Bytes of a page of the database of a run: a few pages hold all its events.
_PAGE_BYTES = 1_024
#: Another process creates the same database: switching the journal waits for no lock.
_IF_LOCKED = tenacity.retry_if_exception(lambda err: isinstance(err, sqlite3.OperationalError) and "locked" in str(err))


@lru_cache(maxsize=64)
def _engine(url: str) -> db.Engine:
    """Return the engine of a database: Dagster makes a new one for each statement, and compiles the statement anew."""
    engine = db.create_engine(url, poolclass=NullPool, connect_args={"timeout": SQLITE_BUSY_TIMEOUT_SECONDS})
    # Each statement has a connection of its own: what is committed reaches the disk when that is closed. SQLite would
    # wait for the disk a second time, when the log of changes is written.
    db.event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous = NORMAL"))
    return engine


class _Events(SqliteEventLogStorage):
    """Events of all runs in the index, and of each run in a database that has the table of events alone."""

    @contextmanager
    def _connect(self, shard: str) -> Iterator[db.Connection]:
        with self._db_lock:
            if shard not in self._initialized_dbs:
                self._prepare(shard)
                self._initialized_dbs.add(shard)
            with _engine(self.conn_string_for_shard(shard)).begin() as connection:
                yield connection

    def _prepare(self, shard: str) -> None:
        if shard == INDEX_SHARD_NAME:
            self._initdb(_engine(self.conn_string_for_shard(shard)))
            return
        with closing(sqlite3.connect(self.path_for_shard(INDEX_SHARD_NAME))) as index:
            (revision,) = index.execute("SELECT version_num FROM alembic_version").fetchone()
        create_run_database(Path(self.path_for_shard(shard)), revision)


class _Runs(SqliteRunStorage):
    """Runs, by an engine that is kept."""

    @contextmanager
    def connect(self) -> Iterator[db.Connection]:
        with _engine(self._conn_string).begin() as connection:
            yield connection


class RootStorage(DagsterSqliteStorage):
    """Dagster's storage of a folder, of the same files; databases that Dagster's own made are used as they are."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(base_dir, inst_data)
        history = Path(base_dir) / "history"
        self._run_storage = _Runs(create_db_conn_string(str(history), "runs"))
        self._event_log_storage = _Events(str(history / "runs"))

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData, config_value: Any) -> RootStorage:
        """Return the storage of the folder that the instance names."""
        return cls.from_local(inst_data=inst_data, **config_value)


@tenacity.retry(stop=tenacity.stop_after_attempt(20), wait=tenacity.wait_fixed(0.1), retry=_IF_LOCKED, reraise=True)
def create_run_database(path: Path, revision: str) -> None:
    """Create the database of the events of one run, unless it is there, at a revision of Dagster's tables."""
    with closing(sqlite3.connect(path, timeout=SQLITE_BUSY_TIMEOUT_SECONDS, isolation_level=None)) as database:
        if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone():
            return
        database.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("BEGIN IMMEDIATE")
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone():
            # Without indexes: all rows are of one run, and are read in their order.
            table = db.schema.CreateTable(SqlEventLogStorageTable).compile(dialect=db.dialects.sqlite.dialect())
            database.execute(str(table))
            database.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
            database.execute("INSERT INTO alembic_version VALUES (?)", (revision,))
        database.execute("COMMIT")
