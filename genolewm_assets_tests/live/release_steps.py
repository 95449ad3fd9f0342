"""What happens on a live server when releases appear in the listing, step by step; for any storage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from typing import Any

from genolewm_assets.launch import environment_of
from genolewm_assets.packages.pointer import open_current
from genolewm_assets_tests.faults.small_disk import SmallDisk
from genolewm_assets_tests.live.graphql import GraphQL, Run, Tick
from genolewm_assets_tests.live.harness import LiveServer, wait_until
from genolewm_assets_tests.worlds.graph.live_release_world import ReleaseWorld

SENSOR = "clinvar_release_sensor"
REFRESH = "refresh_release"
#: What the job makes of a release.
RELEASE_ASSETS = (
    "clinvar/release",
    "clinvar/shard",
    "clinvar/changes",
    "mito/variants",
    "holdouts/manifest",
    "packages/split",
    "packages/audit",
)
#: Bytes left on a disk on which the history cannot grow, and on which a release is built.
_TOO_LITTLE, _ENOUGH = 200_000, 2_000_000_000
STATES = ("embeddings/cache", "embeddings/corpus")


def release_in_use(world: ReleaseWorld) -> str:
    """Return the release that trainers read."""
    return str(json.loads((world.root / "packages/current.json").read_bytes())["release"])


def releases_used(graphql: GraphQL) -> list[str]:
    """Return the releases that ``packages/current`` has pointed to, oldest first, repetitions left out."""
    moves = [each.metadata["release"] for each in reversed(graphql.materializations("packages/current"))]
    return [key for index, key in enumerate(moves) if index == 0 or key != moves[index - 1]]


def the_old_release_is_in_use(server: LiveServer, world: ReleaseWorld) -> None:
    """It was packaged before, and the sensor, which is running, asks for nothing."""
    graphql = server.graphql
    assert release_in_use(world) == world.old
    assert graphql.instigator_status(SENSOR) == "RUNNING"
    wait_until(lambda: graphql.ticks(SENSOR), "the sensor's first tick")
    assert graphql.partition_keys("clinvar/release") == [world.old]
    assert graphql.runs(job=REFRESH) == []


def a_half_uploaded_file_is_let_alone(server: LiveServer, world: ReleaseWorld) -> None:
    """Two ticks see a file without a checksum, and register nothing."""
    graphql = server.graphql
    world.publish_half(world.new)
    _wait_for_ticks(graphql, 2)
    assert graphql.partition_keys("clinvar/release") == [world.old]
    assert graphql.runs(job=REFRESH) == []


def a_new_release_is_packaged_and_taken(server: LiveServer, world: ReleaseWorld) -> None:
    """From the file's appearance to the pointer, without a hand, and without a state encoded again."""
    graphql = server.graphql
    states = {asset: graphql.materializations(asset) for asset in STATES}
    earlier_runs = {run.id for run in graphql.runs()}
    appeared = time.time()
    world.publish(world.new)

    run = _refresh_run(graphql, world.new)
    _registered_within_two_intervals(graphql.ticks(SENSOR), world.new, appeared)
    assert run.status == "SUCCESS", graphql.step_failures(run.id)
    _wait_for_release_in_use(graphql, world, world.new)
    assert releases_used(graphql) == [world.old, world.new]
    assert _assets_made_since(graphql, earlier_runs) == {*RELEASE_ASSETS, "packages/current"}
    assert {asset: graphql.materializations(asset) for asset in STATES} == states

    for asset in RELEASE_ASSETS:
        assert graphql.partition_statuses(asset)[world.new] == "materialized"
        checks = graphql.check_statuses(asset).items()
        # The age of releases is a state of the whole asset, which the daily job tells; an audit of so few tuples and
        # of a part of a genome is not conclusive.
        not_asked = {"newest_release_built"}
        statuses = {name: found.get(world.new) for name, found in checks if name not in not_asked}
        assert set(statuses.values()) == {"succeeded"}, (asset, statuses)
        # Automation may look at the release again while it is being made; it then finds it as it is.
        assert len({each.metadata["path"] for each in graphql.materializations(asset, world.new)}) == 1
    assert _changes(graphql, world, world.new) == world.changes


def a_corrupt_release_moves_nothing(server: LiveServer, world: ReleaseWorld) -> None:
    """Its bytes are not those of its checksum: the run fails, the check says so, and what stood stands."""
    graphql = server.graphql
    world.publish_corrupt(world.corrupt)
    run = _refresh_run(graphql, world.corrupt)
    assert run.status == "FAILURE"
    # Dagster decides about another try right after it has recorded the failure.
    wait_until(lambda: "dagster/will_retry" in graphql.run(run.id).tags, "the decision about another try")
    assert graphql.run(run.id).tags["dagster/will_retry"] == "false", "it would fail again"
    (reason,) = graphql.step_failures(run.id)
    assert world.files[world.corrupt].name in reason
    assert "md5" in reason.lower()
    assert graphql.partition_statuses("clinvar/release")[world.corrupt] == "failed"
    failed = {
        name
        for name, partitions in graphql.check_statuses("clinvar/release").items()
        if partitions.get(world.corrupt) == "failed"
    }
    # What was not reached is no failure.
    assert failed in ({"checksum_matches_published"}, {"inputs_accepted"}), failed
    for asset in RELEASE_ASSETS:
        assert graphql.materializations(asset, world.corrupt) == []
    assert release_in_use(world) == world.new
    assert not (world.root / "packages" / world.corrupt).exists()


def the_next_good_release_is_taken(server: LiveServer, world: ReleaseWorld) -> None:
    """The corrupt one before it is passed over, also as the predecessor."""
    graphql = server.graphql
    world.publish(world.later)
    run = _refresh_run(graphql, world.later)
    assert run.status == "SUCCESS", graphql.step_failures(run.id)
    _wait_for_release_in_use(graphql, world, world.later)
    assert releases_used(graphql) == [world.old, world.new, world.later]
    assert set(_changes(graphql, world, world.later).values()) == {0}
    assert graphql.materializations("clinvar/changes", world.later)[0].metadata["predecessor"] == world.new
    assert graphql.partition_keys("clinvar/release") == [world.old, world.new, world.corrupt, world.later]
    assert graphql.materializations("clinvar/release", world.corrupt) == []


def a_hostile_release_is_refused(server: LiveServer, world: ReleaseWorld) -> None:
    """Its reference bases are of no genome that is known; its texts reach no terminal."""
    world.publish(world.hostile)
    run = _refresh_run(server.graphql, world.hostile)
    assert run.status == "FAILURE"
    (reason,) = server.graphql.step_failures(run.id)
    assert "clinvar/shard" in reason


def a_refusal_is_dismissed(server: LiveServer, world: ReleaseWorld) -> None:
    """The job ends what the UI shows in red; who asks what became of the release still learns it."""
    config = {"ops": {"end_failures": {"config": {"release": world.hostile}}}}
    run_id = server.graphql.launch_job("dismiss_release", config=config)
    assert server.graphql.wait_for_run(run_id).status == "SUCCESS"
    # A tick of automation that began before keeps what it read until the next one.
    wait_until(lambda: not _red(server.graphql, world.hostile), "the failures to be gone from the pages")


def a_full_disk_is_named(server: LiveServer, world: ReleaseWorld, disk: SmallDisk) -> None:
    """Root and history share the disk: what is served is whole, and who asks learns what is the matter."""
    disk.leave(_TOO_LITTLE)
    world.publish(world.last)
    wait_until(lambda: "its file system is full" in _run(server, world, "status").stderr, "the full disk to be named")
    assert _run(server, world, "verify").returncode == 0
    assert open_current(world.root).info.release == world.later


def the_release_is_taken_when_there_is_room(server: LiveServer, world: ReleaseWorld, disk: SmallDisk) -> None:
    """The run that met the full disk is ended and tried again by itself."""
    disk.leave(_ENOUGH)
    _wait_for_release_in_use(server.graphql, world, world.last)
    assert releases_used(server.graphql) == [world.old, world.new, world.later, world.last]


def everyone_agrees(
    server: LiveServer, world: ReleaseWorld, *, served: str, refused: Mapping[str, str], red: Collection[str]
) -> None:
    """Commands, pages and the trainer tell one story.

    Parameters
    ----------
    served
        Release that trainers read.
    refused
        Refused releases, and a part of the reason.
    red
        Those of them of which a page still shows a failure.
    """
    graphql = server.graphql
    code, status = _told(server, world, "status")
    _, releases = _told(server, world, "releases")
    faults, _ = _told(server, world, "verify")
    assert faults == 0
    assert status["releases"]["served"] == open_current(world.root).info.release == served
    assert graphql.materializations("packages/current")[0].metadata["release"] == served
    assert {row["release"] for row in releases if row["state"] == "served"} == {served}
    whys = {row["release"]: row["why"] for row in releases if row["state"] == "refused"}
    assert status["latest"] == releases
    assert whys.keys() == refused.keys()
    assert all(part in whys[key] and "\x1b" not in whys[key] for key, part in refused.items())
    for key in refused:
        assert bool(_red(graphql, key)) is (key in red), (key, _red(graphql, key))
    newest = max({served, *refused})
    late = [trouble["reason"] for trouble in status["troubles"] if trouble["kind"] == "late"]
    age = graphql.check_statuses("packages/current")["newest_release_built"]
    if newest == served:
        assert (code, late, age) == (0, [], {None: "succeeded"}), status["troubles"]
    else:
        assert code == 4
        assert f"{newest} was refused" in late[0]
        wait_until(
            lambda: graphql.check_statuses("packages/current")["newest_release_built"] == {None: "failed"},
            "the check of the pointer to say that a release was refused",
        )


def _told(server: LiveServer, world: ReleaseWorld, command: str) -> tuple[int, Any]:
    """Return exit code and JSON of a command on the root of a running server."""
    done = _run(server, world, command, "--json")
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def _run(server: LiveServer, world: ReleaseWorld, command: str, *options: str) -> subprocess.CompletedProcess[str]:
    catalog = [] if command == "verify" else ["--catalog", str(world.catalog)]
    words = [sys.executable, "-m", "genolewm_assets", command, "--root", str(world.root), *catalog, *options]
    environment = {**os.environ, **environment_of(world.root, str(world.catalog)), **server.environment}
    return subprocess.run(words, env=environment, cwd="/", capture_output=True, text=True, check=False)


def _red(graphql: GraphQL, key: str) -> set[str]:
    """Return the assets of which a page shows a partition, or a check of it, as failed."""
    bad = {"failed", "executionFailed"}
    return {
        asset
        for asset in RELEASE_ASSETS
        if graphql.partition_statuses(asset).get(key) in bad
        or any(found.get(key) in bad for found in graphql.check_statuses(asset).values())
    }


def _changes(graphql: GraphQL, world: ReleaseWorld, key: str) -> Mapping[str, int]:
    """Return the counts that are shown for a release's changes."""
    shown = graphql.materializations("clinvar/changes", key)[0]
    return {name: shown.metadata[name] for name in world.changes}


def _refresh_run(graphql: GraphQL, key: str) -> Run:
    """Wait for the one run that refreshes a release, and for its end."""
    tags = {"dagster/partition": key}
    wait_until(lambda: graphql.runs(job=REFRESH, tags=tags), f"a run for {key}")
    (run,) = graphql.runs(job=REFRESH, tags=tags)
    return graphql.wait_for_run(run.id)


def _registered_within_two_intervals(ticks: list[Tick], key: str, appeared: float) -> None:
    """Check that the first or second tick after a file was there has added its partition."""
    later = sorted((tick for tick in ticks if tick.timestamp > appeared), key=lambda tick: tick.timestamp)
    added = [number for number, tick in enumerate(later, 1) if key in tick.added_partitions]
    # A tick that was reading the listing when the file appeared may have seen it already.
    earlier = any(key in tick.added_partitions for tick in ticks if tick.timestamp <= appeared)
    assert earlier or (added and added[0] <= 2), (key, appeared, ticks)


def _wait_for_ticks(graphql: GraphQL, count: int) -> None:
    """Wait until this many ticks of the sensor have begun after now and ended."""
    now = time.time()
    wait_until(
        lambda: sum(tick.timestamp > now and tick.status != "STARTED" for tick in graphql.ticks(SENSOR)) >= count,
        f"{count} ticks of the sensor",
    )


def _wait_for_release_in_use(graphql: GraphQL, world: ReleaseWorld, key: str) -> None:
    """Wait until the pointer has moved and its run has ended."""
    wait_until(lambda: release_in_use(world) == key, f"packages/current to move to {key}")
    wait_until(lambda: releases_used(graphql)[-1] == key, "its materialisation to be recorded")


def _assets_made_since(graphql: GraphQL, earlier: set[str]) -> set[str]:
    """Wait until no run is in progress; return what the runs since the ``earlier`` ones were about."""
    ended = {"SUCCESS", "FAILURE", "CANCELED"}
    wait_until(lambda: all(run.status in ended for run in graphql.runs()), "all runs to end")
    return {asset for run in graphql.runs() if run.id not in earlier for asset in graphql.assets_of_run(run.id)}
