"""What automation asks for: tables of what happened between two ticks and what the next ones request."""

from __future__ import annotations

import dagster as dg
import pyarrow.parquet as pq
import pytest

from genolewm_assets_tests.defs.conftest import copied
from genolewm_assets_tests.worlds.graph.built_world import Automation, BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import CONTIGS, CORPUS, LINEAR, RELEASES

NEW = "2025-06-01"
FIRST, SECOND = RELEASES
#: What follows a change of alleles, and states of everything.
PACKAGING = [{asset: {FIRST, SECOND}} for asset in ("holdouts/manifest", "packages/split", "packages/audit")]
STATES = {"embeddings/cache": set(LINEAR), "embeddings/corpus": set(CORPUS)}

world = copied


@pytest.fixture
def automation(world: BuiltWorld) -> Automation:
    return Automation(world)


def test_nothing_is_requested_where_nothing_happened(automation: Automation) -> None:
    automation.follow({}, {})


@pytest.mark.nightly
def test_a_new_release_moves_the_pointer_and_nothing_else(world: BuiltWorld, automation: Automation) -> None:
    world.register_release(NEW)
    assert automation.tick() == ({}, {})
    assert world.run_job("refresh_release", partition_key=NEW).success
    automation.follow({"packages/current": {None}}, {})


@pytest.mark.nightly
def test_a_tick_in_the_middle_of_a_refresh_changes_nothing(world: BuiltWorld, automation: Automation) -> None:
    """The assets of a release one after the other, with a tick after each."""
    world.register_release(NEW)
    automation.tick()
    world.make("clinvar/release", NEW)
    # Nobody builds the rest here, so automation does, as far as the packages: those are asked for by a person.
    automation.follow({"clinvar/shard": {NEW}}, {"clinvar/changes": {NEW}, "mito/variants": {NEW}}, {})


@pytest.mark.nightly
def test_a_bad_release_requests_nothing_and_blocks_nothing(world: BuiltWorld, automation: Automation) -> None:
    world.register_release(NEW, header_date="2025-06-08")
    assert not world.run_job("refresh_release", partition_key=NEW).success
    automation.follow({}, {})
    # Another release's package changes while this one has failed and has no package.
    world.write_gnomad("chr17", world.gnomad_records("chr17")[:-1])
    world.make("gnomad/shard", "chr17")
    automation.follow(*PACKAGING)
    assert automation.tick() == ({"packages/current": {None}}, {})


def test_gnomad_rebuilt_with_the_same_bytes_requests_nothing(world: BuiltWorld, automation: Automation) -> None:
    for contig in CONTIGS:
        world.make("gnomad/shard", contig)
    assert automation.tick() == ({}, {})


FROM_GENOME = {
    "gnomad/shard": set(CONTIGS),
    "windows/index": set(LINEAR),
    "corpus/windows": set(CORPUS),
    "clinvar/shard": set(RELEASES),
    "mito/genomes": {None},
}


@pytest.mark.nightly
def test_a_changed_genome_passes_through_the_graph_step_by_step(world: BuiltWorld, automation: Automation) -> None:
    # Seen for the first time: what is there is compared with it, and kept.
    assert world.run_job("observe_sources").success
    first = [
        ({"reference/genome": {None}, "corpus/records": set(CORPUS)}, {"embeddings/corpus": set(CORPUS)}),
        ({"gnomad/shard": set(CONTIGS), "mito/genomes": {None}}, {"embeddings/cache": set(LINEAR)}),
        ({"mito/tokens": {None}, "holdouts/manifest": set(RELEASES)}, {}),
        ({}, {}),
    ]
    for cpu, gpu in first:
        assert automation.tick() == (cpu, gpu)
        automation.run(cpu)
        automation.run(gpu)

    world.write_fasta(world.sequences, width=60)  # the same bases in another file
    assert world.run_job("observe_sources").success
    both = set(RELEASES)
    steps = [
        ({"reference/genome": {None}}, {}),
        (FROM_GENOME, {}),
        ({"clinvar/changes": both, "mito/tokens": {None}, "mito/variants": both, "holdouts/manifest": both}, STATES),
        # Packages wait for the states, which nobody computes while the sensor for it is stopped.
        ({}, {}),
    ]
    for cpu, gpu in steps:
        assert automation.tick() == (cpu, gpu)
        assert all(success for *_, success in automation.run(cpu))
    assert all(success for *_, success in automation.run(STATES))
    for asset in ("packages/split", "packages/audit", "packages/current"):
        requested, nothing = automation.tick()
        assert (set(requested), nothing) == ({asset}, {})
        automation.run(requested)
    assert automation.tick() == ({}, {})


@pytest.mark.nightly
def test_one_failed_contig_holds_back_what_reads_it_and_nothing_else(world: BuiltWorld, automation: Automation) -> None:
    good = world.gnomad_records("chr20")
    world.write_gnomad("chr20", world.gnomad_records("chr20", wrong_ref=5))
    world.write_fasta(world.sequences, width=60)  # the same bases in another file
    world.make("reference/genome")
    assert automation.tick() == (FROM_GENOME, {})
    failed = [(asset, key) for asset, key, success in automation.run(FROM_GENOME) if not success]
    assert failed == [("gnomad/shard", "chr20")]
    cpu, gpu = automation.tick()
    assert cpu == {"clinvar/changes": set(RELEASES), "mito/tokens": {None}, "mito/variants": set(RELEASES)}
    automation.run(cpu)
    automation.run(gpu)
    assert automation.tick() == ({}, {})

    world.write_gnomad("chr20", good)
    world.make("gnomad/shard", "chr20")
    assert automation.tick() == ({"holdouts/manifest": set(RELEASES)}, {})


def test_a_failed_rebuild_shuts_the_gate_for_what_changed_beside_it(world: BuiltWorld, automation: Automation) -> None:
    """All contigs were built, and nothing upstream of them changed: only the checks of one have failed since."""
    good = world.gnomad_records("chr20")
    world.write_gnomad("chr20", world.gnomad_records("chr20", wrong_ref=5))
    assert not world.materialize("gnomad/shard", partition="chr20").success
    world.write_gnomad("chr17", world.gnomad_records("chr17")[:-1])
    world.make("gnomad/shard", "chr17")
    assert automation.tick() == ({}, {})
    world.write_gnomad("chr20", good)
    world.make("gnomad/shard", "chr20")
    assert automation.tick() == ({"holdouts/manifest": set(RELEASES)}, {})


@pytest.mark.nightly
def test_a_package_that_changes_while_the_pointer_moves_moves_it(world: BuiltWorld, automation: Automation) -> None:
    world.write_gnomad("chr17", world.gnomad_records("chr17")[:-1])
    world.materialize("gnomad/shard", partition="chr17")
    world.materialize("holdouts/manifest", "packages/split", "packages/audit", partition=SECOND)
    requested, _ = automation.tick()
    assert requested["packages/current"] == {None}
    # Between two ticks: the pointer moved, and then the other package was finished.
    world.make("packages/current")
    assert world.materialize("holdouts/manifest", "packages/split", "packages/audit", partition=FIRST).success
    assert automation.tick() == ({"packages/current": {None}}, {})


def observe(world: BuiltWorld, domain: str, version: str) -> None:
    """Report what an observation of a source outside the root reports."""
    tags = {"dagster/data_version": version}
    world.instance.report_runless_asset_event(dg.AssetObservation(dg.AssetKey([domain, "source"]), tags=tags))


@pytest.mark.nightly
def test_a_changed_corpus_file_with_the_same_records_rebuilds_no_windows(
    world: BuiltWorld, automation: Automation
) -> None:
    file = world.folder / "corpus/mrna_evo2/part-00000.parquet"
    pq.write_table(pq.read_table(file), file, compression="zstd")
    observe(world, "corpus", "v2")
    automation.follow({"corpus/records": set(CORPUS)})
    # The same records in another file: all windows are kept.
    automation.follow({"corpus/windows": set(CORPUS)})
    assert automation.tick() == ({}, {})


@pytest.mark.nightly
def test_one_changed_gnomad_file_requests_one_contigs_shard_alone(world: BuiltWorld, automation: Automation) -> None:
    # Seen for the first time: what is there is compared with it, and kept.
    assert world.run_job("observe_sources").success
    for _ in range(4):
        for requested in automation.tick():
            automation.run(requested)
    assert automation.tick() == ({}, {})

    world.write_gnomad("chr17", world.gnomad_records("chr17")[:-1])
    assert world.run_job("observe_sources").success
    automation.follow({"gnomad/shard": {"chr17"}})
    assert automation.tick() == ({"holdouts/manifest": set(RELEASES)}, {})
    assert world.run_job("observe_sources").success
    assert "gnomad/shard" not in automation.tick()[0]


@pytest.mark.nightly
def test_changed_weights_are_a_matter_of_the_gpu_sensor(world: BuiltWorld, automation: Automation) -> None:
    for version in ("v1", "v2"):
        observe(world, "encoder", version)
        assert automation.tick() == ({}, STATES)
        assert automation.tick() == ({}, {})
    observe(world, "encoder", "v2")
    assert automation.tick() == ({}, {})


@pytest.mark.nightly
def test_packages_do_not_wait_for_states_of_a_changed_encoder(world: BuiltWorld, automation: Automation) -> None:
    """The sensor that would compute them is stopped."""
    observe(world, "encoder", "v1")
    assert automation.tick() == ({}, STATES)
    world.write_gnomad("chr17", world.gnomad_records("chr17")[:-1])
    world.make("gnomad/shard", "chr17")
    automation.follow(*PACKAGING)
    assert automation.tick() == ({"packages/current": {None}}, {})


@pytest.mark.nightly
@pytest.mark.parametrize("observed", [False, True])
def test_a_fresh_instance_starts_with_the_genome_and_not_with_an_observation(
    unbuilt: BuiltWorld, observed: bool
) -> None:
    """And sources that were never observed hold nothing up."""
    automation = Automation(unbuilt)
    if observed:
        assert unbuilt.run_job("observe_sources").success
    assert automation.tick() == ({}, {})
    unbuilt.make("reference/genome")
    # No release and no piece of the corpus is registered.
    known = {asset: keys for asset, keys in FROM_GENOME.items() if asset not in {"clinvar/shard", "corpus/windows"}}
    assert automation.tick() == (known, {})


@pytest.mark.nightly
def test_a_source_seen_for_the_first_time_is_no_reason_for_a_first_build(unbuilt: BuiltWorld) -> None:
    unbuilt.make("reference/genome")
    unbuilt.make("gnomad/shard", "chr17")
    automation = Automation(unbuilt)
    assert unbuilt.run_job("observe_sources").success
    automation.follow({"reference/genome": {None}})
    assert automation.tick() == ({"gnomad/shard": {"chr17"}}, {})
