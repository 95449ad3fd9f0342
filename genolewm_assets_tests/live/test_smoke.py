"""The one live test of `make test`: ``genolewm ui`` on a built root, as a person starts it."""

from __future__ import annotations

import signal
from pathlib import Path
from urllib.request import urlopen

import pytest

from genolewm_assets_tests.deploy.sessions import members
from genolewm_assets_tests.live.graphql import GraphQL
from genolewm_assets_tests.live.harness import wait_until
from genolewm_assets_tests.live.test_one_ui import STOP_S, ui
from genolewm_assets_tests.servers.programs import free_port
from genolewm_assets_tests.worlds.graph.built_world import everything_built


def test_a_page_answers_a_partition_is_materialised_and_all_servers_end(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    port = free_port()
    with everything_built(tmp_path_factory).copied_to(tmp_path / "world") as world, ui(world, port) as shown:
        shown.wait_for_address()
        with urlopen(f"http://127.0.0.1:{port}/assets", timeout=60) as page:
            assert (page.status, page.read()[:15]) == (200, b"<!DOCTYPE html>")
        graphql = GraphQL(f"http://127.0.0.1:{port}")
        assert graphql.partition_statuses("gnomad/shard")["chr20"] == "missing"
        assert graphql.wait_for_run(graphql.launch("gnomad/shard", "chr20")).status == "SUCCESS"
        assert graphql.partition_statuses("gnomad/shard")["chr20"] == "materialized"
        shown.process.send_signal(signal.SIGTERM)
        assert shown.process.wait(STOP_S) == 0
        wait_until(lambda: members(shown.process.pid) == [], "all servers to end", timeout_s=60)
