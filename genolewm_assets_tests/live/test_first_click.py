"""From an empty root to the newest package with one click, and on to a good and a bad release; nothing else touched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from genolewm_assets_tests.live.graphql import GraphQL
from genolewm_assets_tests.live.harness import LiveServer, live_server, wait_until

pytestmark = pytest.mark.slow

FIRST, NEXT, BAD = "2025-01-05", "2025-01-12", "2025-01-19"
SENSOR, REFRESH = "clinvar_release_sensor", "refresh_release"


def test_one_click_builds_everything_and_releases_follow(tmp_path: Path) -> None:
    with live_server(tmp_path / "root", "sample") as server:
        graphql = server.graphql
        wait_until(lambda: any(tick.skip_reason for tick in graphql.ticks(SENSOR)), "a tick of the sensor")
        assert f"{FIRST} waits for reference/genome" in str(graphql.ticks(SENSOR)[-1].skip_reason)
        run = graphql.wait_for_run(graphql.launch_job("build_everything"), timeout_s=900)
        assert run.status == "SUCCESS", graphql.step_failures(run.id)
        assert release_in_use(server) == FIRST
        assert failed_runs(graphql) == []
        # Every run was queued at the start, and held until its turn: neither automation nor the sensor requested any.
        requested = [one for one in graphql.runs() if one.id != run.id]
        assert requested
        assert all(one.tags.get("genolewm/held") == "false" and "genolewm/builds" in one.tags for one in requested)

        publish(server)
        wait_until(lambda: release_in_use(server) == NEXT, f"the package of {NEXT}")
        assert failed_runs(graphql) == []

        publish(server, "--bad")
        wait_until(lambda: graphql.runs(job=REFRESH, tags={"dagster/partition": BAD}), f"a run for {BAD}")
        (refresh,) = graphql.runs(job=REFRESH, tags={"dagster/partition": BAD})
        assert graphql.wait_for_run(refresh.id).status == "FAILURE"
        assert graphql.check_statuses("clinvar/shard")["ref_mismatches_rare"][BAD] == "failed"
        assert "ref_mismatches_rare" in graphql.step_failures(refresh.id)[0]
        assert release_in_use(server) == NEXT


def publish(server: LiveServer, *options: str) -> None:
    """Run ``genolewm demo release``."""
    command = [sys.executable, "-m", "genolewm_assets", "demo", "release", "--root", str(server.root), *options]
    subprocess.run(command, check=True, capture_output=True)


def release_in_use(server: LiveServer) -> str:
    """Return the release that trainers read."""
    return str(json.loads((server.root / "packages/current.json").read_bytes())["release"])


def failed_runs(graphql: GraphQL) -> list[str]:
    """Return the ids of the runs that did not succeed."""
    return [run.id for run in graphql.runs(statuses=["FAILURE", "CANCELED"])]
