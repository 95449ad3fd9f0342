"""A new ClinVar release appears on the public server; a live Dagster takes it, from the listing to the pointer.

The tests are one story and run in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from genolewm_assets_tests.conftest import SHARED_DATA
from genolewm_assets_tests.faults.small_disk import SmallDisk, small_disk_here
from genolewm_assets_tests.live import release_steps as steps
from genolewm_assets_tests.live.harness import LiveServer, live_server
from genolewm_assets_tests.servers.web_directory import web_directory
from genolewm_assets_tests.worlds.graph.live_release_world import ReleaseWorld, real_world, simulated_world

pytestmark = [pytest.mark.timeout(1_800)]


@dataclass(frozen=True)
class Story:
    server: LiveServer
    world: ReleaseWorld
    disk: SmallDisk | str


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Serve the real data where it is there, else the tiny world, with the old release packaged."""
    folder = tmp_path_factory.mktemp("release")
    with web_directory(folder / "public") as site:
        world = real_world(folder, SHARED_DATA, site) if SHARED_DATA.is_dir() else simulated_world(folder, site)
        with (
            small_disk_here(world.root, size="8g") as disk,
            live_server(world.root, world.catalog, demo_first=True) as server,
        ):
            yield Story(server, world, disk)


def test_the_old_release_is_in_use(story: Story) -> None:
    steps.the_old_release_is_in_use(story.server, story.world)


def test_a_half_uploaded_file_is_let_alone(story: Story) -> None:
    steps.a_half_uploaded_file_is_let_alone(story.server, story.world)


def test_a_new_release_is_packaged_and_taken(story: Story) -> None:
    steps.a_new_release_is_packaged_and_taken(story.server, story.world)


def test_a_corrupt_release_moves_nothing(story: Story) -> None:
    world = story.world
    steps.everyone_agrees(story.server, world, served=world.new, refused={}, red=())
    steps.a_corrupt_release_moves_nothing(story.server, world)
    told = {"served": world.new, "refused": {world.corrupt: "MD5"}, "red": {world.corrupt}}
    steps.everyone_agrees(story.server, world, **told)
    story.server.kill()
    story.server.start()
    steps.everyone_agrees(story.server, world, **told)


def test_the_next_good_release_is_taken_and_nothing_stays_red(story: Story) -> None:
    world = story.world
    steps.the_next_good_release_is_taken(story.server, world)
    steps.everyone_agrees(story.server, world, served=world.later, refused={world.corrupt: "MD5"}, red=())


def test_a_hostile_release_is_refused_and_dismissed(story: Story) -> None:
    world = story.world
    steps.a_hostile_release_is_refused(story.server, world)
    refused = {world.corrupt: "MD5", world.hostile: "clinvar/shard"}
    steps.everyone_agrees(story.server, world, served=world.later, refused=refused, red={world.hostile})
    steps.a_refusal_is_dismissed(story.server, world)
    steps.everyone_agrees(story.server, world, served=world.later, refused=refused, red=())


def test_a_full_disk_is_named_and_loses_nothing(story: Story) -> None:
    world = story.world
    if isinstance(story.disk, str):
        pytest.skip(story.disk)
    steps.a_full_disk_is_named(story.server, world, story.disk)
    steps.the_release_is_taken_when_there_is_room(story.server, world, story.disk)
    refused = {world.corrupt: "MD5", world.hostile: "clinvar/shard"}
    steps.everyone_agrees(story.server, world, served=world.last, refused=refused, red=())
