"""A Ray cluster of three nodes below Dagster: where steps run, what a lost node and a cancelled run leave.

The tests are one story and run in their order.
"""

from __future__ import annotations

import os
import sysconfig
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import yaml

from genolewm_assets.launch import TELEMETRY_OFF
from genolewm_assets_tests.deploy.installation import DEPLOY, settings_of
from genolewm_assets_tests.live.engine_steps import (
    BUILT,
    LATER,
    cancel,
    launched_again,
    packaged,
    printed,
    register_releases,
    stop_while_it_builds,
)
from genolewm_assets_tests.live.harness import LiveServer, live_server, wait_until
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.servers.postgres import postgres_server
from genolewm_assets_tests.servers.processes import is_running, watching
from genolewm_assets_tests.servers.programs import needs_extra
from genolewm_assets_tests.servers.ray_cluster import RayCluster, SeenStep, Witness, ray_cluster
from genolewm_assets_tests.worlds.graph.built_world import copied_world, forget
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES, TinyWorld, bytes_of

pytestmark = [pytest.mark.timeout(1_200)]


#: Numbers of pieces by source, for the test that divides them.
PIECES = {"mrna_evo2": 32, "prokaryote_evo2": 16}


@dataclass(frozen=True)
class Story:
    world: TinyWorld
    server: LiveServer
    cluster: RayCluster
    witness: Witness
    undisturbed: dict[str, bytes]

    def steps_of(self, run_id: str) -> dict[str, SeenStep]:
        return {step: seen for (run, step), seen in self.witness.steps.items() if run == run_id}


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Serve a root from which some artefacts were removed, on PostgreSQL, with the settings of ``deploy/ray``."""
    needs_extra("ray", "dagster_ray")
    folder = tmp_path_factory.mktemp("ray")
    world = copied_world(tmp_path_factory, folder / "world")
    root, undisturbed = world.root, bytes_of(world.root)
    with postgres_server(folder / "database") as postgres, ray_cluster(_of_each_node(postgres.environment)) as cluster:
        for asset, partitions in BUILT.items():
            for partition in partitions:
                forget(root, asset, partition)
        environment = {
            **postgres.environment,
            **cluster.client_environment,
            "GENOLEWM_EXECUTOR": "ray",
            "GENOLEWM_RUN_LOGS": str(root / "dagster/logs"),
            "GENOLEWM_RUN_FILES": str(root / "dagster"),
        }
        settings = yaml.safe_load((DEPLOY / "ray/dagster.yaml").read_text())
        served = live_server(root, world.catalog, settings=settings, environment=environment)
        witness = Witness()
        with served as server, watching(witness.note):
            register_releases(server)
            yield Story(world, server, cluster, witness, undisturbed)


def _of_each_node(postgres: dict[str, str]) -> dict[str, str]:
    """Return what every node has in its own environment: programs, database, Ray's settings; no root, no catalogue."""
    example = settings_of((DEPLOY / "genolewm.env.example").read_text())
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    common = {"PATH": path, "PYTHONSAFEPATH": "1", "PYTHONPATH": str(REPOSITORY)}
    shipped = {name: value for name, value in example.items() if name in TELEMETRY_OFF or name.startswith("RAY_")}
    return {**common, **postgres, **shipped}


def test_states_are_computed_on_the_h100_node_and_all_else_elsewhere(story: Story) -> None:
    graphql = story.server.graphql
    backfill = graphql.backfill_several(BUILT)
    # The daemon looks at a backfill twice a minute; that it is complete is for a later test.
    wait_until(lambda: packaged(graphql, backfill), "the package of the backfill")
    runs = graphql.runs_of_backfill(backfill)
    assert {run.status for run in runs} == {"SUCCESS"}, [graphql.step_failures(run.id) for run in runs]
    seen = {(run.id, step): where for run in runs for step, where in story.steps_of(run.id).items()}
    asked = {(run.id, asset.replace("/", "__")) for run in runs for asset in graphql.assets_of_run(run.id)}
    assert set(seen) == asked
    assert len(seen) == sum(map(len, BUILT.values()))
    on_card = {key: where for key, where in seen.items() if key[1].startswith("embeddings__")}
    assert len(on_card) == 1
    assert {where.node for where in on_card.values()} == {story.cluster.addresses["h100"]}
    assert {where.devices for where in on_card.values()} == {"0"}
    elsewhere = {where.node for key, where in seen.items() if key not in on_card}
    assert elsewhere <= {story.cluster.addresses["head"], story.cluster.addresses["cpu"]}
    assert bytes_of(story.server.root) == story.undisturbed


def test_what_a_step_prints_is_found_by_the_ui(story: Story) -> None:
    (run,) = [run for run in story.server.graphql.runs(statuses=["SUCCESS"]) if run.partition == "chr17"]
    assert set(story.steps_of(run.id)) == {"windows__index", "embeddings__cache"}
    for step in story.steps_of(run.id):
        assert f"{step} - STEP_START" in printed(story.server, run.id, step)


def test_a_run_that_is_cancelled_ends_its_step_on_the_other_node(story: Story) -> None:
    graphql = story.server.graphql
    forget(story.server.root, *LATER)
    run = graphql.launch(*LATER)
    wait_until(lambda: story.steps_of(run), "the step to start")
    (step,) = story.steps_of(run).values()
    cancel(graphql, run)
    wait_until(lambda: not is_running(step.pid), "the process of the step to end", timeout_s=60)
    assert bytes_of(story.server.root).keys() < story.undisturbed.keys()


def test_a_step_that_loses_its_node_fails_and_the_next_try_builds_the_same_bytes(story: Story) -> None:
    graphql, root = story.server.graphql, story.server.root
    lost = graphql.launch(*LATER)
    wait_until(lambda: story.steps_of(lost), "the step to start")
    (step,) = story.steps_of(lost).values()
    stop_while_it_builds(root, step.pid)
    assert bytes_of(root).keys() < story.undisturbed.keys()
    story.cluster.kill_raylet("h100")
    assert graphql.wait_for_run(lost).status == "FAILURE"
    (reason,) = graphql.step_failures(lost)
    assert "Discovered failed Ray job" in reason
    wait_until(lambda: not is_running(step.pid), "the process of the lost step to end", timeout_s=60)

    story.cluster.start("h100")
    again = launched_again(graphql, lost)
    assert graphql.wait_for_run(again).status == "SUCCESS", graphql.step_failures(again)
    assert {seen.node for seen in story.steps_of(again).values()} == {story.cluster.addresses["h100"]}
    assert bytes_of(root) == story.undisturbed


def test_the_backfill_is_complete(story: Story) -> None:
    (backfill,) = {run.tags["dagster/backfill"] for run in story.server.graphql.runs() if run.partition == RELEASES[1]}
    assert story.server.graphql.wait_for_backfill(backfill) == "COMPLETED_SUCCESS"


@pytest.mark.timeout(3_000)
def test_pieces_are_built_and_embedded_on_all_nodes_and_each_once(story: Story) -> None:
    graphql, world = story.server.graphql, story.world
    world.edit_catalog(corpus={"records_per_piece": 32})
    for source, pieces in PIECES.items():
        world.write_foreign(source, range(20 * pieces))
    divided = graphql.wait_for_run(graphql.launch("corpus/records", next(iter(PIECES))))
    assert divided.status == "SUCCESS", graphql.step_failures(divided.id)
    again = graphql.wait_for_run(graphql.launch("corpus/records", [*PIECES][1]))
    assert again.status == "SUCCESS", graphql.step_failures(again.id)
    keys = [key for key in graphql.partition_keys("corpus/windows") if key.startswith(tuple(PIECES)) and "-" in key]
    assert len(keys) == sum(PIECES.values())
    backfill = graphql.backfill_several({"corpus/windows": keys, "embeddings/corpus": keys})
    assert graphql.wait_for_backfill(backfill, timeout_s=2_400) == "COMPLETED_SUCCESS"
    runs = {run.id: run.partition for run in graphql.runs_of_backfill(backfill)}
    seen = {key: where for key, where in story.witness.steps.items() if key[0] in runs}
    assert Counter((step, runs[run]) for run, step in seen) == dict.fromkeys(
        product(("corpus__windows", "embeddings__corpus"), keys), 1
    )
    nodes = {step: {seen[key].node for key in seen if key[1] == step} for _, step in seen}
    assert nodes["embeddings__corpus"] == {story.cluster.addresses["h100"]}
    assert nodes["corpus__windows"] == {story.cluster.addresses[node] for node in ("head", "cpu")}
    on_ray = bytes_of(world.root)
    for asset, key in product(("corpus/windows", "embeddings/corpus"), keys):
        forget(world.root, asset, key)
    world.instance.add_dynamic_partitions("corpus_piece", keys)
    for key in keys:
        assert world.materialize("corpus/windows", "embeddings/corpus", partition=key).success
    assert bytes_of(world.root) == on_ray


def test_a_job_without_the_token_is_refused(story: Story) -> None:
    with pytest.raises(HTTPError, match="401"):
        urlopen(f"{story.cluster.jobs_url}/api/jobs/")
