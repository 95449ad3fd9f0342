"""Dagster with less work per run and statement (a new engine); as a script, it runs ``genolewm``."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable
from importlib import import_module
from typing import Any

import sqlalchemy as db
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.pool import NullPool

_STORAGES = (
    "event_log.sqlite.sqlite_event_log",
    "runs.sqlite.sqlite_run_storage",
    "schedules.sqlite.sqlite_schedule_storage",
)


@functools.cache
def install() -> None:
    """Read Dagster's migrations once, keep one engine per database, and let SQLite not wait for the disk.

    No test cuts the power under Dagster's own databases, so a write need not reach the disk.
    """
    read = ScriptDirectory.from_config

    @functools.cache
    def read_once(folder: str) -> ScriptDirectory:
        config = Config()
        config.set_main_option("script_location", folder)
        return read(config)

    def from_config(config: Config) -> ScriptDirectory:
        return read_once(config.get_main_option("script_location") or "")

    ScriptDirectory.from_config = from_config  # type: ignore[method-assign, assignment]
    db.event.listen(db.Engine, "connect", _do_not_wait)
    for name in _STORAGES:
        storage = import_module(f"dagster._core.storage.{name}")
        storage.create_engine = _engine  # type: ignore[attr-defined]


@functools.lru_cache(maxsize=64)
def _engine_of(url: str, timeout: float | None) -> db.Engine:
    arguments = {} if timeout is None else {"timeout": timeout}
    return db.create_engine(url, poolclass=NullPool, connect_args=arguments)


def _engine(url: str, *, poolclass: Callable[..., Any], connect_args: dict[str, float] | None = None) -> db.Engine:
    """Return the engine of a database; it keeps compiled statements and no connection."""
    assert poolclass is NullPool
    return _engine_of(url, (connect_args or {}).get("timeout"))


def _do_not_wait(connection: Any, _record: object) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


if __name__ == "__main__":
    from genolewm_assets.cli import main

    install()
    main()
