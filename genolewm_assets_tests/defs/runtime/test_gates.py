"""Gates: what fails publishes nothing, the last good version stays, consumers refuse, automation stays still."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from genolewm_assets.defs.runtime import gates
from genolewm_assets.defs.runtime.currency import BUILT_FROM_CURRENT_INPUTS
from genolewm_assets.defs.runtime.failure_hook import FINAL
from genolewm_assets.defs.runtime.gates import BUILD_AGAIN_TAG, INPUTS_ACCEPTED, STANDING_CHECKS
from genolewm_assets.defs.runtime.run_log import KEPT_TAG
from genolewm_assets.errors import ConfigurationError, CorruptResourceError, DeviceError, FetchError, GenoLeWMError
from genolewm_assets.store.artefacts import Damage
from genolewm_assets.variants.declared_checks import CONTIGS_KNOWN, GNOMAD_CHECKS
from genolewm_assets_tests.worlds.graph.tiny_world import (
    TinyWorld,
    blocking_checks,
    check_of,
    failed_checks,
    failure_of,
    refusal_of,
    shown_of,
)
from genolewm_assets_tests.worlds.store.plans import flip

GENOME, GNOMAD, WINDOWS = "reference/genome", "gnomad/shard", "windows/index"
RELEASE, SHARD = "clinvar/release", "clinvar/shard"


def published_digest(world: TinyWorld, asset: str, partition: str | None) -> str:
    return world.open(asset, partition).manifest.sha256


def row_at_fault(result: dg.ExecuteInProcessResult, name: str) -> Mapping[str, object]:
    (record,) = check_of(result, name).metadata["offending"].records
    return record.data


def raises(error: Exception) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_a_good_run_records_every_check_for_its_partition(world: TinyWorld) -> None:
    world.make(GENOME)
    result = world.materialize(GNOMAD, partition="chr17")
    assert result.success
    evaluations = result.get_asset_check_evaluations()
    advisory = {BUILT_FROM_CURRENT_INPUTS, CONTIGS_KNOWN}
    expected = {*STANDING_CHECKS, "checksum_matches_published", *GNOMAD_CHECKS, *advisory}
    assert {check.check_name for check in evaluations} == expected
    assert all(check.passed and check.partition == "chr17" for check in evaluations)
    event = shown_of(result, GNOMAD)
    assert event.tags["dagster/data_version"] == f"sha256:{published_digest(world, GNOMAD, 'chr17')}"
    assert "dagster/partition_row_count" in event.metadata


def test_contig_without_a_source_is_declared_empty(world: TinyWorld) -> None:
    world.make(GENOME)
    world.make(GNOMAD, "chr21")
    manifest = world.open(GNOMAD, "chr21").manifest
    assert (manifest.recipe["source"], manifest.counts["alleles_in"]) == ("no_source", 0)


def test_rebuilding_keeps_an_intact_version_and_replaces_a_flipped_one(world: TinyWorld) -> None:
    world.make(GENOME)
    world.make(GNOMAD, "chr17")
    before = published_digest(world, GNOMAD, "chr17")
    result = world.materialize(GNOMAD, partition="chr17")
    kept = shown_of(result, GNOMAD).metadata
    assert (kept["reused"].value, next(iter(kept))) == (True, "kept"), "the first row"
    assert str(kept["kept"].value).startswith("nothing to build")
    assert world.instance.get_run_by_id(result.run_id).tags[KEPT_TAG] == GNOMAD
    flip(world.open(GNOMAD, "chr17").file("variants.parquet"), 100)
    rebuilt = world.make(GNOMAD, "chr17").metadata
    assert (rebuilt["reused"].value, "kept" in rebuilt) == (False, False)
    assert published_digest(world, GNOMAD, "chr17") == before


def test_flipped_byte_upstream_is_refused_in_the_same_and_in_another_run(world: TinyWorld) -> None:
    world.materialize(GENOME)
    world.materialize(RELEASE, partition="2024-01-07")
    flip(next(world.open(RELEASE, "2024-01-07").directory.glob("*.vcf.gz")), 100)
    result = world.materialize(SHARD, partition="2024-01-07")
    refusal_of(result)
    assert {check.check_name for check in blocking_checks(result)} == {INPUTS_ACCEPTED}
    assert not (world.root / "clinvar/2024-01-07/shard").exists()
    (advice,) = (check for check in result.get_asset_check_evaluations() if not check.blocking)
    assert (advice.check_name, advice.severity.value) == ("newest_release_built", "WARN")


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
    failure = failure_of(world.materialize(reader, partition="chr17"))
    assert "windows.parquet: cannot be read as Parquet" in failure


def test_ref_mismatches_above_the_threshold(world: TinyWorld) -> None:
    world.materialize(GENOME)
    world.make(GNOMAD, "chr17")
    good = published_digest(world, GNOMAD, "chr17")
    world.write_gnomad("chr17", world.gnomad_records("chr17", wrong_ref=5))
    result = world.materialize(GNOMAD, partition="chr17")
    assert "ref_mismatches_rare" in failed_checks(result)
    # Every check that was reached is recorded.
    recorded = {check.check_name for check in blocking_checks(result)}
    assert recorded == {INPUTS_ACCEPTED, "checksum_matches_published", *GNOMAD_CHECKS}
    assert json.loads((world.root / "gnomad/4.1/chr17/manifest.json").read_text())["checks"]
    rejected = json.loads((world.root / "rejected/gnomad/4.1/chr17/manifest.json").read_text())
    assert rejected["counts"]["rejected.ref_mismatch"] > 0
    with pytest.raises(Exception, match="latest build failed"):
        published_digest(world, GNOMAD, "chr17")
    world.write_gnomad("chr17", world.gnomad_records("chr17"))
    world.make(GNOMAD, "chr17")
    assert published_digest(world, GNOMAD, "chr17") == good


def test_wrong_build_of_the_genome_stops_the_same_and_another_run(world: TinyWorld) -> None:
    wrong = dict(world.sequences)
    wrong["chr20"] = wrong["chr20"][:-1] + (b"A" if wrong["chr20"][-1:] != b"A" else b"C")
    world.write_fasta(wrong)
    result = world.materialize(GENOME)
    assert failed_checks(result) == {"contigs_match_pins"}
    row = row_at_fault(result, "contigs_match_pins")
    assert (row["contig"], row["what"], row["expected"] == row["got"]) == ("chr20", "MD5", False)
    assert not list(world.root.glob("reference/*"))
    refusal_of(world.materialize(WINDOWS, partition="chr17"))


def test_release_whose_header_has_another_date(world: TinyWorld) -> None:
    world.materialize(GENOME)
    world.write_clinvar("2025-01-05", header_date="2025-01-12")
    both = world.materialize(RELEASE, SHARD, partition="2025-01-05")
    assert failed_checks(both) == {"release_key_equals_header_date"}
    row = row_at_fault(both, "release_key_equals_header_date")
    assert (row["expected"], row["got"]) == ("##fileDate=2025-01-05", "##fileDate=2025-01-12")
    assert not both.asset_materializations_for_node("clinvar__shard")
    refusal_of(world.materialize(SHARD, partition="2025-01-05"))
    assert not (world.root / "clinvar/2025-01-05/vcf").exists()


def test_truncated_download_keeps_the_last_good_version(world: TinyWorld) -> None:
    world.make(RELEASE, "2025-01-05")
    good = (world.root / "clinvar/2025-01-05/vcf").resolve()
    vcf = world.vcf("2025-01-05")
    vcf.write_bytes(vcf.read_bytes()[:-200])
    result = world.materialize(RELEASE, partition="2025-01-05")
    assert not result.success
    assert "checksum_matches_published" in failed_checks(result) or failed_checks(result) == {INPUTS_ACCEPTED}
    assert (world.root / "clinvar/2025-01-05/vcf").resolve() == good
    refusal_of(world.materialize(SHARD, partition="2025-01-05"))


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
    assert all(check.passed for check in blocking_checks(differing))
    assert published_digest(world, GENOME, None) == before


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
    monkeypatch.setattr(gates, "build", raises(error))
    result = world.materialize(GENOME)
    assert str(error) in failure_of(result)
    tags = world.instance.get_run_by_id(result.run_id).tags
    assert (FINAL.items() <= tags.items()) is not retried


def test_a_build_whose_device_failed_is_kept_to_be_resumed(world: TinyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.make(GENOME)
    world.make(WINDOWS, "chr17")
    failing = raises(DeviceError("encoder x", "the accelerator failed"))
    with monkeypatch.context() as patched:
        patched.setattr("genolewm_assets.encoders.causal_lm.CausalLMStateEncoder.encode_windows", failing)
        result = world.materialize("embeddings/cache", partition="chr17")
    assert not result.success
    assert not (world.root / "rejected/embeddings").exists()
    world.make("embeddings/cache", "chr17")
