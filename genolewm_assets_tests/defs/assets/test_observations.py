"""Files outside the root: asked about without being read; what changed there has another data version."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import dagster as dg
import pytest

from genolewm_assets.encoders.tiny_llama import write_tiny_llama
from genolewm_assets_tests.defs.conftest import unbuilt
from genolewm_assets_tests.servers.web_server import WebServer
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import CONTIGS, LINEAR, failure_of
from genolewm_assets_tests.worlds.graph.tiny_world import CORPUS as SOURCES

GENOME, GNOMAD, MITO, CORPUS, ENCODER, HAPLOTYPES = (
    dg.AssetKey([domain, "source"]) for domain in ("reference", "gnomad", "mito", "corpus", "encoder", "haplotypes")
)
FASTA = "genome.fa.gz"
WITH_SOURCE = LINEAR[:2]
world = unbuilt


@pytest.fixture
def remote(world: BuiltWorld, site: WebServer) -> BuiltWorld:
    """Return a world whose FASTA and gnomAD files are on a web server; only the latter have a published MD5."""
    names = {contig: f"gnomad.{contig}.vcf.bgz" for contig in WITH_SOURCE}
    for served in (FASTA, *(f"{name}{end}" for name in names.values() for end in ("", ".md5"))):
        site.files[served] = (world.folder / served).read_bytes()
    sources = {contig: {"url": site.url(name)} for contig, name in names.items()}
    world.edit_catalog(genome={"fasta": site.url(FASTA)}, gnomad={"sources": sources})
    return world


def edit_corpus(world: BuiltWorld, **keys: str) -> None:
    world.edit_catalog(corpus={"sources": {"mrna_evo2": keys}})


def observe(world: BuiltWorld, key: dg.AssetKey, partition: str | None = None) -> str:
    """Run the daily job and return the data version it recorded."""
    assert world.run_job("observe_sources").success
    return version_of(world, key, partition)


def version_of(world: BuiltWorld, key: dg.AssetKey, partition: str | None = None) -> str:
    record = world.instance.get_latest_data_version_record(key, partition_key=partition)
    return record.asset_observation.tags["dagster/data_version"]


def test_only_small_requests_are_made(remote: BuiltWorld, site: WebServer) -> None:
    observe(remote, GENOME)
    assert site.headed == [f"/{FASTA}"]
    others = sorted(path for path, _ in site.requests if path not in site.headed)
    assert others == [f"/gnomad.{contig}.vcf.bgz.md5" for contig in WITH_SOURCE]
    assert not (remote.root / "work/downloads").exists()


def test_a_changed_etag_is_another_version(remote: BuiltWorld, site: WebServer) -> None:
    contig = WITH_SOURCE[0]
    before = observe(remote, GENOME), observe(remote, GNOMAD, contig)
    assert (observe(remote, GENOME), observe(remote, GNOMAD, contig)) == before
    site.etag = '"v2"'
    after = observe(remote, GENOME), observe(remote, GNOMAD, contig)
    assert after[0] != before[0]
    assert after[1] == before[1], "its MD5 is published, whatever the ETag"


def test_a_changed_published_md5_is_another_version_of_its_contig_alone(remote: BuiltWorld, site: WebServer) -> None:
    observe(remote, GENOME)
    before = {contig: version_of(remote, GNOMAD, contig) for contig in CONTIGS}
    name = f"gnomad.{WITH_SOURCE[0]}.vcf.bgz"
    site.files[f"{name}.md5"] = b"0" * 32 + b"  " + name.encode()
    observe(remote, GENOME)
    after = {contig: version_of(remote, GNOMAD, contig) for contig in CONTIGS}
    assert [contig for contig in CONTIGS if after[contig] != before[contig]] == [WITH_SOURCE[0]]


def test_a_contig_without_a_file_says_so_until_the_catalogue_names_one(world: BuiltWorld) -> None:
    without = observe(world, GNOMAD, "chr21")
    assert shown(world, GNOMAD, "chr21") == {"file": "none: the catalogue names no file of this contig"}
    world.write_gnomad("chr21", world.gnomad_records("chr21"))
    world.edit_catalog(gnomad={"sources": {"chr21": {"url": "gnomad.chr21.vcf.bgz", "release": "4.1"}}})
    assert observe(world, GNOMAD, "chr21") != without


def test_facts_are_single_entries(remote: BuiltWorld, site: WebServer) -> None:
    observe(remote, GENOME)
    contig = WITH_SOURCE[0]
    file = f"gnomad.{contig}.vcf.bgz"
    md5 = (remote.folder / f"{file}.md5").read_text().split()[0]
    link, link_of_genome = (f"[{urlsplit(url).netloc}](<{url}>)" for url in (site.url(file), site.url(FASTA)))
    assert shown(remote, GNOMAD, contig) == {"file": file, "md5": md5[:12], "url": link}
    size = {"size_bytes": len(site.files[FASTA]), "version": site.etag}
    assert shown(remote, GENOME) == {"file": FASTA, **size, "url": link_of_genome}


def test_a_local_file_is_told_by_its_size_and_time(world: BuiltWorld) -> None:
    before = observe(world, GENOME)
    assert observe(world, GENOME) == before
    os.utime(world.folder / FASTA)
    assert observe(world, GENOME) != before


def test_the_corpus_is_told_by_its_files_and_its_revision(world: BuiltWorld) -> None:
    seen = [observe(world, CORPUS)]
    assert observe(world, CORPUS) == seen[0]
    first, second = (world.folder / f"corpus/mrna_evo2/part-0000{number}.parquet" for number in (0, 1))
    for change in (
        lambda: shutil.copyfile(first, second),
        first.unlink,
        lambda: os.utime(second),
        lambda: edit_corpus(world, revision="v1.0"),
    ):
        change()
        seen.append(observe(world, CORPUS))
    assert len(set(seen)) == len(seen)
    stated = stated_files(world, CORPUS)
    assert set(stated) == {f"{name}/part-0000{int(name == 'mrna_evo2')}.parquet" for name in SOURCES}
    assert stated["mrna_evo2/part-00001.parquet"]["revision"] == "v1.0"
    assert "revision" not in stated["prokaryote_evo2/part-00000.parquet"]


def test_a_corpus_without_files_is_absent_until_they_are_there(world: BuiltWorld) -> None:
    present = observe(world, CORPUS)
    folder = world.folder / "corpus/mrna_evo2"
    folder.rename(world.folder / "away")
    assert observe(world, CORPUS) != present
    assert stated_files(world, CORPUS)["mrna_evo2"]["version"] == "absent"
    (world.folder / "away").rename(folder)
    assert observe(world, CORPUS) == present


def test_a_corpus_whose_server_does_not_answer_is_not_observed(world: BuiltWorld, site: WebServer) -> None:
    edit_corpus(world, url=site.url("gone.parquet"))
    failed = world.run_job("observe_sources").get_step_failure_events()
    assert [event.step_key for event in failed] == ["corpus__source"]


def test_a_remote_corpus_is_asked_about_and_not_downloaded(world: BuiltWorld, site: WebServer) -> None:
    name = "part-00000.parquet"
    site.files[name] = (world.folder / "corpus/mrna_evo2" / name).read_bytes()
    edit_corpus(world, url=site.url(name))
    before = observe(world, CORPUS)
    # Asked for its version, and for its length to count the rows of its pieces by the footer.
    assert site.headed == [f"/{name}"] * 2
    site.etag = '"v2"'
    assert observe(world, CORPUS) != before


def test_the_encoder_is_told_by_the_files_of_its_identity(world: BuiltWorld, tmp_path: Path) -> None:
    built_in = observe(world, ENCODER)
    assert shown(world, ENCODER) == {"file": "tiny-llama-random", "version": "built-in"}
    assert not (world.root / "models").exists(), "nothing is written"
    folder = tmp_path / "model"
    write_tiny_llama(folder)
    world.edit_catalog(encoder={"model": str(folder)})
    seen = [built_in, observe(world, ENCODER)]
    assert set(stated_files(world, ENCODER)) == {"config.json", "model.safetensors", "tokenizer.json"}
    (folder / "README.md").write_text("not part of the identity")
    assert observe(world, ENCODER) == seen[-1]
    for name in ("model.safetensors", "config.json"):
        os.utime(folder / name)
        seen.append(observe(world, ENCODER))
    assert len(set(seen)) == len(seen)


def test_a_hub_model_is_told_by_its_commit(world: BuiltWorld) -> None:
    seen = set()
    for commit in ("a" * 40, "b" * 40):
        world.edit_catalog(encoder={"model": "owner/name", "revision": commit})
        seen.add(observe(world, ENCODER))
        assert shown(world, ENCODER) == {"file": "owner/name", "revision": commit[:12]}
    assert len(seen) == 2


def latest(world: BuiltWorld, key: dg.AssetKey, partition: str | None = None) -> dg.AssetObservation:
    wanted = dg.AssetRecordsFilter(asset_key=key, asset_partitions=None if partition is None else [partition])
    (record,) = world.instance.fetch_observations(wanted, limit=1).records
    return record.asset_observation


def shown(world: BuiltWorld, key: dg.AssetKey, partition: str | None = None) -> dict[str, object]:
    """Return the entries of the latest observation."""
    return {name: entry.value for name, entry in latest(world, key, partition).metadata.items()}


def stated_files(world: BuiltWorld, key: dg.AssetKey) -> dict[str, dict[str, object]]:
    """Return what the latest observation states of each of several files, without facts that are not known."""
    table = latest(world, key).metadata["files"]
    if isinstance(table, dg.TableMetadataValue):
        read = [dict(row.data) for row in table.records]
    else:  # which would leave its box
        lines = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in str(table.value).strip().splitlines()]
        read = [dict(zip(lines[0], cells, strict=True)) for cells in lines[2:]]
    rows = [{name: value for name, value in row.items() if value not in {None, ""}} for row in read]
    return {str(row.pop("name")): row for row in rows}


def test_where_a_file_is_absent_the_run_fails_and_others_are_observed(remote: BuiltWorld, site: WebServer) -> None:
    known = observe(remote, GENOME)
    del site.files[FASTA]
    result = remote.run_job("observe_sources")
    assert [event.step_key for event in result.get_step_failure_events()] == ["reference__source"]
    assert "does not exist" in failure_of(result)
    observed = {event.asset_key for event in result.all_events if event.event_type_value == "ASSET_OBSERVATION"}
    assert observed == {GNOMAD, HAPLOTYPES, MITO, CORPUS, ENCODER}
    assert version_of(remote, GENOME) == known


def test_a_contig_whose_file_is_not_there_is_named_and_the_others_are_observed(world: BuiltWorld) -> None:
    for contig in WITH_SOURCE:
        (world.folder / f"gnomad.{contig}.vcf.bgz").rename(world.folder / f"{contig}.away")
    result = world.run_job("observe_sources")
    assert [event.step_key for event in result.get_step_failure_events()] == ["gnomad__source"]
    said = failure_of(result)
    assert said.startswith(f"2 of {len(CONTIGS)} files were not observed:\n")
    assert all(f"gnomad.{contig}.vcf.bgz" in said for contig in WITH_SOURCE)
    seen = {event.partition for event in result.all_events if event.asset_key == GNOMAD and event.is_asset_observation}
    assert seen == set(CONTIGS) - set(WITH_SOURCE)
