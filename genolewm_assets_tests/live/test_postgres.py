"""The same on PostgreSQL: a new release; one partition and four, with crashes of Dagster and of the database.

The tests are one story and run in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from genolewm_assets_tests.live import backfill_steps, release_steps
from genolewm_assets_tests.live.harness import LiveServer, live_server
from genolewm_assets_tests.servers.postgres import PostgresServer, postgres_server
from genolewm_assets_tests.servers.web_directory import web_directory
from genolewm_assets_tests.worlds.graph.live_release_world import ReleaseWorld, simulated_world

pytestmark = [pytest.mark.timeout(1_800)]


@dataclass(frozen=True)
class Story:
    server: LiveServer
    world: ReleaseWorld
    postgres: PostgresServer


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Serve the tiny world on a database of its own, with the old release packaged."""
    folder = tmp_path_factory.mktemp("postgres")
    with postgres_server(folder / "database") as postgres, web_directory(folder / "public") as site:
        world = simulated_world(folder, site)
        # Of itself SQLAlchemy 2.1 looks for another driver than the one that dagster-postgres brings.
        url = postgres.url.replace("postgresql:", "postgresql+psycopg2:")
        settings = {"storage": {"postgres": {"postgres_url": url}}}
        with live_server(world.root, world.catalog, settings=settings, demo_first=True) as server:
            yield Story(server, world, postgres)


def test_a_new_release_is_packaged_and_taken(story: Story) -> None:
    release_steps.the_old_release_is_in_use(story.server, story.world)
    release_steps.a_new_release_is_packaged_and_taken(story.server, story.world)


def test_a_backfill_outlives_two_crashes(story: Story) -> None:
    backfill_steps.a_backfill_outlives_two_crashes(story.server, story.postgres, story.world.site)
