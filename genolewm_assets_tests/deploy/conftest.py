"""One PostgreSQL server and one set of sources per test module; an installation on them per module or per test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from genolewm_assets_tests.deploy.installation import Installation
from genolewm_assets_tests.servers.postgres import PostgresServer, postgres_server
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with postgres_server(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> TinyWorld:
    return TinyWorld(tmp_path_factory.mktemp("sources"))


@pytest.fixture(scope="module")
def installation(
    database: PostgresServer, world: TinyWorld, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    made = Installation(tmp_path_factory.mktemp("machine"), database, world.catalog)
    try:
        yield made
    finally:
        made.stop()
