"""What the UI's buttons do, through GraphQL, on a live server over the tiny world."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from genolewm_assets_tests.live.backfill_steps import four_contigs_are_filled
from genolewm_assets_tests.live.harness import LiveServer, live_server
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    world = TinyWorld(tmp_path_factory.mktemp("live"))
    with live_server(world.root, world.catalog) as server:
        yield server


def test_one_partition_and_a_backfill_of_four_contigs(server: LiveServer) -> None:
    four_contigs_are_filled(server)
