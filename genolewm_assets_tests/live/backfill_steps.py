"""One partition by hand and four by a backfill, on a live server; with and without crashes on the way."""

from __future__ import annotations

import gzip
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pysam

from genolewm_assets_tests.live.graphql import GraphQL
from genolewm_assets_tests.live.harness import LiveServer, wait_until
from genolewm_assets_tests.servers.postgres import PostgresServer
from genolewm_assets_tests.servers.web_directory import WebDirectory
from genolewm_assets_tests.worlds.graph.tiny_world import CONTIGS

SHARDS = "gnomad/shard"
AUTOMATION = "cpu_automation_sensor"

#: The contigs of the tiny world that have a gnomAD file.
DOWNLOADED = ("chr17", "chr20")

_OUTAGE_S = 12.0


@contextmanager
def by_hand_only(graphql: GraphQL) -> Iterator[None]:
    """Turn automation off, so that every run is one that the test asked for."""
    wait_until(lambda: _is_off(graphql), "automation to be off")
    try:
        yield
    finally:
        graphql.start_sensor(AUTOMATION)


def _is_off(graphql: GraphQL) -> bool:
    """Turn automation off, again if a tick that was under way has turned it on as it ended."""
    if graphql.instigator_status(AUTOMATION) == "RUNNING":
        graphql.stop_sensor(AUTOMATION)
    at_rest = all(tick.status != "STARTED" for tick in graphql.ticks(AUTOMATION))
    return at_rest and graphql.instigator_status(AUTOMATION) == "STOPPED"


def four_contigs_are_filled(server: LiveServer) -> None:
    """Launch one partition and a backfill of four; both succeed, and every check stands for every partition."""
    graphql = server.graphql
    with by_hand_only(graphql):
        genome = graphql.wait_for_run(graphql.launch("reference/genome"))
        assert genome.status == "SUCCESS", graphql.step_failures(genome.id)
        assert set(graphql.partition_statuses(SHARDS).values()) == {"missing"}

        backfill = graphql.backfill(SHARDS, CONTIGS)
        single = graphql.wait_for_run(graphql.launch("windows/index", "chr17"))
        assert single.status == "SUCCESS", graphql.step_failures(single.id)
        assert (single.assets, single.partition) == (("windows/index",), "chr17")
        assert graphql.wait_for_backfill(backfill) == "COMPLETED_SUCCESS"
        assert graphql.partition_statuses("windows/index") == {
            "chr17": "materialized",
            "chr20": "missing",
            "chr21": "missing",
        }
        assert graphql.partition_statuses(SHARDS) == dict.fromkeys(CONTIGS, "materialized")
        assert Counter(run.partition for run in graphql.runs_of_backfill(backfill)) == Counter(CONTIGS)
        windows, shards = graphql.check_statuses("windows/index"), graphql.check_statuses(SHARDS)
        assert {"inputs_accepted", "bytes_match_manifest", "windows_tile_contig"} <= set(windows)
        assert {"inputs_accepted", "bytes_match_manifest", "ref_agrees_with_genome"} <= set(shards)
        assert set(map(str, windows.values())) == {str({"chr17": "succeeded"})}
        assert all(statuses == dict.fromkeys(CONTIGS, "succeeded") for statuses in shards.values()), shards
        assert set(map(str, graphql.check_statuses("reference/genome").values())) == {str({None: "succeeded"})}


def a_backfill_outlives_two_crashes(server: LiveServer, postgres: PostgresServer, site: WebDirectory) -> None:
    """Kill all of Dagster, then its database, while two of four partitions are at work: nothing lost, nothing twice."""
    graphql = server.graphql
    before = {each.run_id for each in graphql.materializations(SHARDS)}
    files = [f"gnomad.{contig}.vcf.bgz" for contig in DOWNLOADED]
    with by_hand_only(graphql):
        for name in files:
            _drop_last_record(site, name)
        site.hold(*files)
        asked = len(site.requests)
        backfill = graphql.backfill(SHARDS, CONTIGS)
        assert graphql.wait_for_run(graphql.launch("windows/index", "chr17")).status == "SUCCESS"
        _wait_for_downloads(site, files, after=asked)
        first = {run.id: run.partition for run in graphql.runs_of_backfill(backfill) if run.status == "STARTED"}
        assert set(first.values()) == set(DOWNLOADED)

        asked = len(site.requests)
        server.kill()
        server.start()
        _wait_for_downloads(site, files, after=asked)
        second = {run.id: run.partition for run in graphql.runs_of_backfill(backfill) if run.status == "STARTED"}
        assert set(second.values()) == set(DOWNLOADED)
        assert {graphql.run(run_id).status for run_id in first} == {"FAILURE"}

        postgres.stop(how=signal.SIGKILL)
        site.release()
        time.sleep(_OUTAGE_S)  # the runs find their database gone
        postgres.start()
        _wait_for_answers(graphql)
        assert graphql.wait_for_backfill(backfill) == "COMPLETED_SUCCESS"

    runs = graphql.runs_of_backfill(backfill)
    assert {run.status for run in runs} == {"SUCCESS", "FAILURE"}
    assert Counter(run.partition for run in runs if run.status == "SUCCESS") == Counter(CONTIGS)
    made = [each for each in graphql.materializations(SHARDS) if each.run_id not in before]
    assert Counter(each.partition for each in made) == Counter(CONTIGS)
    assert graphql.partition_statuses(SHARDS) == dict.fromkeys(CONTIGS, "materialized")
    assert all(statuses == dict.fromkeys(CONTIGS, "succeeded") for statuses in graphql.check_statuses(SHARDS).values())


def _wait_for_answers(graphql: GraphQL) -> None:
    """Wait until the web server has noticed that its connections to the database are broken, and made others."""

    def answers() -> bool:
        with suppress(OSError):
            graphql.runs()
            graphql.materializations(SHARDS)
            graphql.ticks(AUTOMATION)
            return True
        return False

    wait_until(answers, "the web server to find its database again")


def _drop_last_record(site: WebDirectory, name: str) -> None:
    """Publish another version of a VCF, so that its shard must be built anew."""
    file, plain = site.folder / name, site.folder / f"{name}.plain"
    plain.write_bytes(gzip.decompress(file.read_bytes()).rstrip().rpartition(b"\n")[0] + b"\n")
    pysam.tabix_compress(str(plain), str(file), force=True)
    plain.unlink()
    site.publish_checksum(file)


def _wait_for_downloads(site: WebDirectory, files: list[str], *, after: int) -> None:
    """Wait until every file has been asked for since a number of requests."""
    wait_until(
        lambda: {f"/{name}" for name in files} <= {path for _, path in site.requests[after:]},
        f"somebody to ask for {', '.join(files)}",
    )
