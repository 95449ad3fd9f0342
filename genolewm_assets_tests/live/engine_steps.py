"""Steps that the stories of engines with several machines have in common."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Literal

from genolewm_assets_tests.live.graphql import GraphQL
from genolewm_assets_tests.live.harness import LiveServer, wait_until
from genolewm_assets_tests.servers.processes import is_running
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES

#: Built by the backfill: some of what a package is made of, and the package. All else is there already.
BUILT = {
    "windows/index": ["chr17"],
    "embeddings/cache": ["chr17"],
    "packages/split": [RELEASES[1]],
}

#: Built after that, by runs that end badly.
LATER = ("embeddings/corpus", "eukaryote_generator")


def register_releases(server: LiveServer) -> None:
    """Wait until the releases are known; after that nothing but the tests requests runs."""
    wait_until(lambda: set(server.graphql.partition_keys("packages/split")) == set(RELEASES), "the releases")
    for sensor in ("clinvar_release_sensor", "cpu_automation_sensor"):
        server.graphql.stop_sensor(sensor)
    wait_until(lambda: not server.graphql.runs(statuses=["QUEUED", "STARTING", "STARTED"]), "the queue to be empty")


def packaged(graphql: GraphQL, backfill: str) -> bool:
    """Tell whether the run of the package has ended, or any run of the backfill has failed."""
    runs = graphql.runs_of_backfill(backfill)
    ended = {run.status for run in runs if run.partition == RELEASES[1]} & {"SUCCESS", "FAILURE"}
    return bool(ended) or any(run.status == "FAILURE" for run in runs)


def printed(server: LiveServer, run_id: str, step: str, stream: Literal["stdout", "stderr"] = "stderr") -> str:
    """Return what the UI shows as standard output or error of a step."""
    events = server.graphql.query(
        """query ($id: ID!) { runOrError(runId: $id) { ... on Run { eventConnection { events {
             ... on LogsCapturedEvent { fileKey stepKeys } } } } } }""",
        id=run_id,
    )["runOrError"]["eventConnection"]["events"]
    (file,) = [event["fileKey"] for event in events if step in event.get("stepKeys", ())]
    shown = server.graphql.query(
        "query ($key: [String!]!) { capturedLogs(logKey: $key) { stdout stderr } }", key=[run_id, "compute_logs", file]
    )
    return str(shown["capturedLogs"][stream])


def messages(graphql: GraphQL, run_id: str) -> list[str]:
    """Return the messages in the log of a run."""
    events = graphql.query(
        """query ($id: ID!) { runOrError(runId: $id) { ... on Run { eventConnection { events {
             ... on MessageEvent { message } } } } } }""",
        id=run_id,
    )["runOrError"]["eventConnection"]["events"]
    return [event["message"] for event in events if "message" in event]


def cancel(graphql: GraphQL, run_id: str) -> None:
    """Cancel a run as the UI does, and wait until it is."""
    answer = graphql.query(
        "mutation ($id: String!) { terminateRun(runId: $id) { __typename ... on TerminateRunFailure { message } } }",
        id=run_id,
    )["terminateRun"]
    assert answer["__typename"] == "TerminateRunSuccess", answer
    assert graphql.wait_for_run(run_id).status == "CANCELED"


def launched_again(graphql: GraphQL, run_id: str) -> str:
    """Wait until the daemon launches a failed run again, and return the id of the new one."""
    wait_until(lambda: graphql.runs(tags={"dagster/parent_run_id": run_id}), "the run to be launched again")
    (again,) = graphql.runs(tags={"dagster/parent_run_id": run_id})
    return again.id


def stop_while_it_builds(root: Path, pid: int) -> None:
    """Stop the process of a step or job as soon as it has a work directory; the encoder is loaded after that."""
    deadline = time.monotonic() + 300
    while not [path for path in root.glob("work/embeddings~*/*") if path.name != "lock"]:
        assert is_running(pid), "it has ended"
        assert time.monotonic() < deadline, "no work directory within 300 s"
        time.sleep(0.002)
    os.kill(pid, signal.SIGSTOP)
