"""A fresh tiny world per test, and Dagster databases that are quick to create."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as db
from alembic.config import Config
from alembic.script import ScriptDirectory

from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld


@pytest.fixture
def world(tmp_path: Path) -> TinyWorld:
    """Return sources, a root and an instance that the test may break."""
    return TinyWorld(tmp_path / "world")


@pytest.fixture(scope="session", autouse=True)
def _quick_databases() -> Iterator[None]:
    """Read Dagster's list of migrations once, and let its databases wait for no disk.

    Dagster creates a database for each run and reads some sixty migrations each time; and no test cuts the power.
    """
    read = ScriptDirectory.from_config

    @functools.cache
    def read_once(folder: str) -> ScriptDirectory:
        config = Config()
        config.set_main_option("script_location", folder)
        return read(config)

    def from_config(config: Config) -> ScriptDirectory:
        return read_once(config.get_main_option("script_location") or "")

    def do_not_wait(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute("PRAGMA synchronous = OFF")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", from_config)
        db.event.listen(db.Engine, "connect", do_not_wait)
        yield
        db.event.remove(db.Engine, "connect", do_not_wait)
