"""Gates: what fails publishes nothing, the last good version stays, consumers refuse, automation stays still."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import dagster as dg
import pytest

from genolewm_assets.defs.runtime import gates
from genolewm_assets.defs.runtime.automation import AUTOMATED
from genolewm_assets.defs.runtime.currency import BUILT_FROM_CURRENT_INPUTS
from genolewm_assets.defs.runtime.failure_hook import FINAL
from genolewm_assets.defs.runtime.gates import BUILD_AGAIN_TAG, INPUTS_ACCEPTED, STANDING_CHECKS
from genolewm_assets.defs.runtime.run_log import KEPT_TAG
from genolewm_assets.errors import ConfigurationError, CorruptResourceError, DeviceError, FetchError, GenoLeWMError
from genolewm_assets.store.artefacts import Damage
from genolewm_assets.variants.declared_checks import CONTIGS_KNOWN, GNOMAD_CHECKS
from genolewm_assets_tests.worlds.graph.tiny_world import (
    CONTIGS,
    TinyWorld,
    blocking_checks,
    failed_checks,
    warned_checks,
)
from genolewm_assets_tests.worlds.store.plans import flip

GENOME, GNOMAD, WINDOWS = "reference/genome", "gnomad/shard", "windows/index"
RELEASE, SHARD = "clinvar/release", "clinvar/shard"


def published_digest(world: TinyWorld, asset: str, partition: str | None) -> str:
    return world.open(asset, partition).manifest.sha256


def test_a_good_run_records_every_check_for_its_partition(world: TinyWorld) -> None:
    assert world.materialize(GENOME).success
    result = world.materialize(GNOMAD, partition="chr17")
    assert result.success
    evaluations = result.get_asset_check_evaluations()
    expected = {
        *STANDING_CHECKS,
        "checksum_matches_published",
        *GNOMAD_CHECKS,
        BUILT_FROM_CURRENT_INPUTS,
        CONTIGS_KNOWN,
    }
    assert {check.check_name for check in evaluations} == expected
    assert all(check.passed and check.partition == "chr17" for check in evaluations)
    (event,) = result.asset_materializations_for_node("gnomad__shard")
    assert event.tags is not None
    assert event.tags["dagster/data_version"] == f"sha256:{published_digest(world, GNOMAD, 'chr17')}"
    assert "dagster/partition_row_count" in event.metadata


def test_contig_without_a_source_is_declared_empty(world: TinyWorld) -> None:
    assert world.materialize(GENOME).success
    assert world.materialize(GNOMAD, partition="chr21").success
    manifest = world.open(GNOMAD, "chr21").manifest
    assert manifest.recipe["source"] == "no_source"
    assert manifest.counts["alleles_in"] == 0


def test_rebuilding_keeps_an_intact_version_and_replaces_a_flipped_one(world: TinyWorld) -> None:
    assert world.materialize(GENOME).success
    assert world.materialize(GNOMAD, partition="chr17").success
    before = published_digest(world, GNOMAD, "chr17")
    kept = world.materialize(GNOMAD, partition="chr17")
    again = kept.asset_materializations_for_node("gnomad__shard")
    assert again[0].metadata["reused"].value is True
    assert next(iter(again[0].metadata)) == "kept", "the first row"
    assert str(again[0].metadata["kept"].value).startswith("nothing to build")
    assert world.instance.get_run_by_id(kept.run_id).tags[KEPT_TAG] == GNOMAD
    flip(world.open(GNOMAD, "chr17").file("variants.parquet"), 100)
    rebuilt = world.materialize(GNOMAD, partition="chr17").asset_materializations_for_node("gnomad__shard")
    assert rebuilt[0].metadata["reused"].value is False
    assert "kept" not in rebuilt[0].metadata
    assert published_digest(world, GNOMAD, "chr17") == before


def test_flipped_byte_upstream_is_refused_in_the_same_and_in_another_run(world: TinyWorld) -> None:
    world.materialize(GENOME)
    world.materialize(RELEASE, partition="2024-01-07")
    flip(next(world.open(RELEASE, "2024-01-07").directory.glob("*.vcf.gz")), 100)
    result = world.materialize(SHARD, partition="2024-01-07")
    assert not result.success
    assert failed_checks(result) == {INPUTS_ACCEPTED}
    assert {check.check_name for check in blocking_checks(result)} == {INPUTS_ACCEPTED}
    assert not (world.root / "clinvar/2024-01-07/shard").exists()
    assert {(c.check_name, c.severity.value) for c in result.get_asset_check_evaluations() if not c.blocking} == {
        ("newest_release_built", "WARN")
    }


@pytest.mark.parametrize("reader", [WINDOWS, "embeddings/cache"])
def test_a_damaged_table_under_a_digest_made_anew_is_one_line(world: TinyWorld, reader: str) -> None:
    world.materialize(GENOME)
    world.materialize(WINDOWS, partition="chr17")
    found = world.open(WINDOWS, "chr17")
    table = found.file("windows.parquet")
    table.write_bytes(b"x" * table.stat().st_size)
    digest = hashlib.sha256(table.read_bytes()).hexdigest()
    files = [replace(each, sha256=digest) if each.path == "windows.parquet" else each for each in found.manifest.files]
    sealed = replace(found.manifest, files=tuple(files))
    (found.directory / "manifest.json").write_bytes(sealed.to_bytes())
    moved = found.directory.rename(found.directory.with_name(f"chr17.{sealed.sha256[:12]}"))
    link = world.root / "windows/tiny/chr17"
    link.unlink()
    link.symlink_to(Path(".gen") / moved.name)
    (event,) = world.materialize(reader, partition="chr17").get_step_failure_events()
    assert event.step_failure_data.user_failure_data is not None
    assert "windows.parquet: cannot be read as Parquet" in str(event.step_failure_data.user_failure_data.description)


def test_a_rejected_build_reports_the_checks_that_it_reached(world: TinyWorld) -> None:
    world.materialize(GENOME)
    world.write_gnomad("chr17", world.gnomad_records("chr17", wrong_ref=5))
    result = world.materialize(GNOMAD, partition="chr17")
    recorded = {check.check_name for check in blocking_checks(result)}
    assert recorded == {INPUTS_ACCEPTED, "checksum_matches_published", *GNOMAD_CHECKS}


def test_ref_mismatches_above_the_threshold(world: TinyWorld) -> None:
    world.materialize(GENOME)
    assert world.materialize(GNOMAD, partition="chr17").success
    good = published_digest(world, GNOMAD, "chr17")
    world.write_gnomad("chr17", world.gnomad_records("chr17", wrong_ref=5))
    result = world.materialize(GNOMAD, partition="chr17")
    assert not result.success
    assert "ref_mismatches_rare" in failed_checks(result)
    link = world.root / "gnomad/4.1/chr17"
    assert json.loads((link / "manifest.json").read_text())["checks"]
    rejected = json.loads((world.root / "rejected/gnomad/4.1/chr17/manifest.json").read_text())
    assert rejected["counts"]["rejected.ref_mismatch"] > 0
    with pytest.raises(Exception, match="latest build failed"):
        published_digest(world, GNOMAD, "chr17")
    world.write_gnomad("chr17", world.gnomad_records("chr17"))
    assert world.materialize(GNOMAD, partition="chr17").success
    assert published_digest(world, GNOMAD, "chr17") == good


def test_wrong_build_of_the_genome_stops_the_same_and_another_run(world: TinyWorld) -> None:
    wrong = dict(world.sequences)
    wrong["chr20"] = wrong["chr20"][:-1] + (b"A" if wrong["chr20"][-1:] != b"A" else b"C")
    world.write_fasta(wrong)
    result = world.materialize(GENOME)
    assert not result.success
    assert failed_checks(result) == {"contigs_match_pins"}
    assert not list(world.root.glob("reference/*"))
    assert failed_checks(world.materialize(WINDOWS, partition="chr17")) == {INPUTS_ACCEPTED}


def test_release_whose_header_has_another_date(world: TinyWorld) -> None:
    world.materialize(GENOME)
    world.write_clinvar("2025-01-05", header_date="2025-01-12")
    both = world.materialize(RELEASE, SHARD, partition="2025-01-05")
    assert not both.success
    assert failed_checks(both) == {"release_key_equals_header_date"}
    assert not both.asset_materializations_for_node("clinvar__shard")
    assert failed_checks(world.materialize(SHARD, partition="2025-01-05")) == {INPUTS_ACCEPTED}
    assert not (world.root / "clinvar/2025-01-05/vcf").exists()


def test_truncated_download_keeps_the_last_good_version(world: TinyWorld) -> None:
    assert world.materialize(RELEASE, partition="2025-01-05").success
    good = (world.root / "clinvar/2025-01-05/vcf").resolve()
    vcf = world.folder / "clinvar/clinvar_20250105.vcf.gz"
    vcf.write_bytes(vcf.read_bytes()[:-200])
    result = world.materialize(RELEASE, partition="2025-01-05")
    assert not result.success
    assert "checksum_matches_published" in failed_checks(result) or failed_checks(result) == {INPUTS_ACCEPTED}
    assert (world.root / "clinvar/2025-01-05/vcf").resolve() == good
    assert failed_checks(world.materialize(SHARD, partition="2025-01-05")) == {INPUTS_ACCEPTED}


def test_a_tagged_run_builds_again_and_compares(world: TinyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    again = {BUILD_AGAIN_TAG: "true"}
    assert world.materialize(GENOME, tags=again).success
    before = published_digest(world, GENOME, None)
    equal = world.materialize(GENOME, tags=again)
    assert equal.success
    (seen,) = (event for event in equal.all_events if event.is_asset_observation)
    assert seen.asset_observation_data.asset_observation.metadata["built_again"].value.endswith("the published bytes")
    monkeypatch.setattr(gates, "build_again", lambda *_, **__: (Damage("genome.fa.gz", "content differs", "a", "b"),))
    differing = world.materialize(GENOME, tags=again)
    assert not differing.success
    assert differing.asset_materializations_for_node("reference__genome")
    assert not failed_checks(differing)
    assert not warned_checks(differing)
    assert published_digest(world, GENOME, None) == before


class Automation:
    """The automation daemon, one tick at a time."""

    def __init__(self, world: TinyWorld, graph: dg.Definitions) -> None:
        self._evaluate = partial(dg.evaluate_automation_conditions, graph, world.instance)
        self._cursor = self._evaluate().cursor

    def requested(self) -> dict[str, set[str | None]]:
        """Return the partitions that one tick asks for, by asset."""
        result = self._evaluate(cursor=self._cursor)
        self._cursor = result.cursor
        return {
            entry.key.to_user_string(): set(result.get_requested_partitions(entry.key))
            for entry in result.results
            if result.get_num_requested(entry.key)
        }


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:Parameter `include_sources`")
def test_automation_requests_nothing_while_one_of_its_upstream_partitions_failed(world: TinyWorld) -> None:
    """With every partition built, one that fails its rebuild keeps the fan-in shut although another one changed."""
    from genolewm_assets.definitions import defs

    @dg.asset(
        deps=[dg.AssetDep(["gnomad", "shard"], partition_mapping=dg.AllPartitionMapping())],
        automation_condition=AUTOMATED,
        code_version="1",
    )
    def fan_in() -> None: ...

    world.materialize(GENOME)
    graph = dg.Definitions(assets=[*(defs.assets or []), fan_in], resources=defs.resources)
    automation = Automation(world, graph)
    for contig in CONTIGS:
        assert world.materialize(GNOMAD, partition=contig).success
    assert automation.requested()["fan_in"] == {None}

    good = world.gnomad_records("chr20")
    world.write_gnomad("chr20", world.gnomad_records("chr20", wrong_ref=5))
    assert not world.materialize(GNOMAD, partition="chr20").success
    world.write_gnomad("chr17", world.gnomad_records("chr17")[:-1])
    assert world.materialize(GNOMAD, partition="chr17").success
    assert "fan_in" not in automation.requested()

    world.write_gnomad("chr20", good[:-1])
    assert world.materialize(GNOMAD, partition="chr20").success
    assert automation.requested()["fan_in"] == {None}
    assert "fan_in" not in automation.requested()


@pytest.mark.parametrize(
    ("error", "retried"),
    [
        (DeviceError("encoder x", "the accelerator failed"), True),
        (FetchError("source", "the server is away"), True),
        (CorruptResourceError("encoder x", "hidden states are not finite"), False),
        (ConfigurationError("encoder x", "a state exceeds the range of float16"), False),
    ],
)
def test_only_faults_of_machines_are_retried(
    error: GenoLeWMError, retried: bool, world: TinyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(gates, "build", fail)
    result = world.materialize(GENOME)
    (event,) = result.get_step_failure_events()
    assert event.step_failure_data.user_failure_data is not None
    assert str(error) in str(event.step_failure_data.user_failure_data.description)
    tags = world.instance.get_run_by_id(result.run_id).tags
    assert (FINAL.items() <= tags.items()) is not retried


def test_a_build_whose_device_failed_is_kept_to_be_resumed(world: TinyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    assert world.materialize(GENOME).success
    assert world.materialize(WINDOWS, partition="chr17").success

    def fail(*args: object, **kwargs: object) -> None:
        raise DeviceError("encoder x", "the accelerator failed")

    with monkeypatch.context() as patched:
        patched.setattr("genolewm_assets.encoders.causal_lm.CausalLMStateEncoder.encode_windows", fail)
        result = world.materialize("embeddings/cache", partition="chr17")
    assert not result.success
    assert not (world.root / "rejected/embeddings").exists()
    assert world.materialize("embeddings/cache", partition="chr17").success
