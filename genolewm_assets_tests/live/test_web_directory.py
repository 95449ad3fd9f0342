"""The web server of a folder is one that the project's own readers take for the public one.

What the UI's buttons do, through GraphQL, on a live server over the tiny world.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from genolewm_assets_tests.live.backfill_steps import four_contigs_are_filled
from genolewm_assets_tests.live.graphql import GraphQLError
from genolewm_assets_tests.live.harness import LiveServer, live_server
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld

pytestmark = [pytest.mark.timeout(1_800)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    world = TinyWorld(tmp_path_factory.mktemp("live"))
    with live_server(world.root, world.catalog) as server:
        yield server


def test_one_partition_and_a_backfill_of_four_contigs(server: LiveServer) -> None:
    four_contigs_are_filled(server)


@pytest.mark.parametrize(
    ("resource", "setting"), [("workspace", "root"), ("workspace", "catalog"), ("io_manager", "base_dir")]
)
def test_a_run_in_another_place_is_refused(server: LiveServer, tmp_path: Path, resource: str, setting: str) -> None:
    config = {"resources": {resource: {"config": {setting: str(tmp_path / "elsewhere")}}}}
    before = {run.id for run in server.graphql.runs()}
    with pytest.raises(GraphQLError, match="RunConfigValidationInvalid"):
        server.graphql.launch("reference/genome", config=config)
    assert {run.id for run in server.graphql.runs()} == before
    assert not (tmp_path / "elsewhere").exists()
