"""Files outside the root: asked about without being read; what changed there has another data version."""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg
import pytest
import yaml

from genolewm_assets.definitions import defs
from genolewm_assets_tests.servers.web_server import WebServer
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import LINEAR

GENOME, GNOMAD = dg.AssetKey(["reference", "source"]), dg.AssetKey(["gnomad", "source"])
MITO = dg.AssetKey(["mito", "source"])
FASTA = "genome.fa.gz"
WITH_SOURCE = LINEAR[:2]


@pytest.fixture
def world(tmp_path: Path) -> BuiltWorld:
    return BuiltWorld(tmp_path / "world")


@pytest.fixture
def remote(world: BuiltWorld, site: WebServer) -> BuiltWorld:
    """Return a world whose FASTA and gnomAD files are on a web server; only the latter have a published MD5."""
    document = yaml.safe_load(world.catalog.read_text())
    document["genome"]["fasta"] = site.url(FASTA)
    site.files[FASTA] = (world.folder / FASTA).read_bytes()
    for contig in WITH_SOURCE:
        name = f"gnomad.{contig}.vcf.bgz"
        document["gnomad"]["sources"][contig]["url"] = site.url(name)
        for served in (name, f"{name}.md5"):
            site.files[served] = (world.folder / served).read_bytes()
    world.catalog.write_text(yaml.safe_dump(document))
    return world


def observe(world: BuiltWorld, key: dg.AssetKey) -> str:
    """Run the daily job and return the data version it recorded."""
    result = world.run_job("observe_sources")
    assert result.success
    record = world.instance.get_latest_data_version_record(key)
    assert record is not None
    assert record.asset_observation is not None
    return record.asset_observation.tags["dagster/data_version"]


def test_only_small_requests_are_made(remote: BuiltWorld, site: WebServer) -> None:
    observe(remote, GENOME)
    assert site.headed == [f"/{FASTA}"]
    others = sorted(path for path, _ in site.requests if path not in site.headed)
    assert others == [f"/gnomad.{contig}.vcf.bgz.md5" for contig in WITH_SOURCE]
    assert not (remote.root / "work/downloads").exists()


def test_a_changed_etag_is_another_version(remote: BuiltWorld, site: WebServer) -> None:
    before = observe(remote, GENOME), observe(remote, GNOMAD)
    assert (observe(remote, GENOME), observe(remote, GNOMAD)) == before
    site.etag = '"v2"'
    after = observe(remote, GENOME), observe(remote, GNOMAD)
    assert after[0] != before[0]
    assert after[1] == before[1], "its MD5 is published, whatever the ETag"


def test_a_changed_published_md5_is_another_version(remote: BuiltWorld, site: WebServer) -> None:
    before = observe(remote, GENOME), observe(remote, GNOMAD)
    name = f"gnomad.{WITH_SOURCE[0]}.vcf.bgz"
    site.files[f"{name}.md5"] = b"0" * 32 + b"  " + name.encode()
    after = observe(remote, GENOME), observe(remote, GNOMAD)
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_a_local_file_is_told_by_its_size_and_time(world: BuiltWorld) -> None:
    before = observe(world, GENOME)
    assert observe(world, GENOME) == before
    os.utime(world.folder / FASTA)
    assert observe(world, GENOME) != before


def test_where_a_file_is_not_there_the_run_fails_and_the_other_assets_are_observed(
    remote: BuiltWorld, site: WebServer
) -> None:
    known = observe(remote, GENOME)
    del site.files[FASTA]
    result = remote.run_job("observe_sources")
    assert not result.success
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    assert failure.step_key == "reference__source"
    assert "does not exist" in str(failure.step_failure_data.user_failure_data.description)
    observed = {event.asset_key for event in result.all_events if event.event_type_value == "ASSET_OBSERVATION"}
    assert observed == {GNOMAD, MITO}
    latest = remote.instance.get_latest_data_version_record(GENOME)
    assert latest.asset_observation.tags["dagster/data_version"] == known


def test_what_is_made_from_a_source_says_so() -> None:
    graph = defs.resolve_asset_graph()
    made_from = {"reference/genome": GENOME, "gnomad/shard": GNOMAD, "mito/genomes": MITO, "mito/tokens": MITO}
    for key, source in made_from.items():
        node = graph.get(dg.AssetKey(key.split("/")))
        assert source in node.parent_keys
        assert isinstance(node.partition_mappings[source], dg.AllPartitionMapping)
        assert graph.get(source).is_observable
        assert not graph.get(source).is_materializable


def test_observed_daily_unless_somebody_stops_it() -> None:
    (schedule,) = [each for each in defs.schedules or () if each.name == "observe_sources_schedule"]
    assert isinstance(schedule, dg.ScheduleDefinition)
    assert schedule.default_status is dg.DefaultScheduleStatus.RUNNING
    minute, hour, *rest = str(schedule.cron_schedule).split()
    assert minute.isdigit()
    assert hour.isdigit()
    assert rest == ["*", "*", "*"]
