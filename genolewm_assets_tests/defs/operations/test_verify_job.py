"""``verify_all``: what it says of each partition of intact and damaged roots, and what that does to the gate."""

from __future__ import annotations

import re
import shutil
import tracemalloc
from pathlib import Path

import dagster as dg
import pytest

from genolewm_assets.defs.assets.corpus import corpus_windows
from genolewm_assets.defs.assets.graph import ASSETS
from genolewm_assets.defs.operations.verify_job import PartitionChecks
from genolewm_assets.defs.runtime import run_log
from genolewm_assets.defs.runtime.gates import BYTES_MATCH_MANIFEST, GATE
from genolewm_assets.store.artefacts.build import BuildPlan, BuildReport, build
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.artefacts.verify import Finding, FindingKind, Verified
from genolewm_assets_tests.defs.conftest import copied
from genolewm_assets_tests.worlds.graph.built_world import BUILT, BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import failure_of
from genolewm_assets_tests.worlds.store import plans

GNOMAD, RELEASE = "gnomad/shard", "2024-01-07"

#: What the built world holds; the pointer has no files of its own.
HELD = set(BUILT) - {("packages/current", None)}

world = copied


def flip(world: BuiltWorld, asset: str, partition: str | None, file: str) -> None:
    path = world.open(asset, partition).file(file)
    plans.flip(path, path.stat().st_size // 2)


Spoken = dict[tuple[str, str | None], dg.AssetCheckEvaluation]


def verify(world: BuiltWorld) -> tuple[dg.ExecuteInProcessResult, Spoken]:
    """Run the job, and return what it said of each partition."""
    result = world.run_job("verify_all")
    evaluations = result.get_asset_check_evaluations()
    found = {(each.asset_key.to_user_string(), each.partition): each for each in evaluations}
    assert len(found) == len(evaluations)
    assert {each.check_name for each in evaluations} == {BYTES_MATCH_MANIFEST}
    return result, found


def failed_of(world: BuiltWorld) -> tuple[dg.ExecuteInProcessResult, Spoken]:
    """Run the job, which fails after it has looked at everything; returns what failed."""
    result, evaluations = verify(world)
    assert not result.success
    assert set(evaluations) == HELD
    return result, {key: evaluation for key, evaluation in evaluations.items() if not evaluation.passed}


def gate_is_open(world: BuiltWorld) -> bool:
    """Ask the gate of an asset that reads every contig of gnomAD."""
    deps = [dg.AssetDep(["gnomad", "shard"], partition_mapping=dg.AllPartitionMapping())]

    @dg.asset(deps=deps, automation_condition=GATE)
    def reader() -> None: ...

    graph = dg.Definitions(assets=[*ASSETS, reader], resources=world.graph.resources)
    selection = dg.AssetSelection.assets(reader)
    return dg.evaluate_automation_conditions(graph, world.instance, asset_selection=selection).total_requested == 1


def test_each_published_partition_passes_once(world: BuiltWorld) -> None:
    result, evaluations = verify(world)
    assert result.success
    assert set(evaluations) == HELD
    assert all(evaluation.passed for evaluation in evaluations.values())
    genome = evaluations["reference/genome", None]
    manifest = world.open("reference/genome").manifest
    assert genome.metadata["manifest"].value == manifest.sha256
    assert genome.metadata["files"].value == len(manifest.files)
    assert gate_is_open(world)


def test_a_damaged_file_fails_its_partition_and_the_job_after_all_were_checked(world: BuiltWorld) -> None:
    flip(world, GNOMAD, "chr17", "variants.parquet")
    result, failed = failed_of(world)
    ((subject, evaluation),) = failed.items()
    shown = evaluation.metadata
    assert (subject, next(iter(shown))) == ((GNOMAD, "chr17"), "offending")
    assert "gnomad/4.1/chr17/variants.parquet: content differs: expected sha256 " in shown["problems"].value
    (row,) = shown["offending"].records
    assert (row.data["file"], row.data["problem"]) == ("gnomad/4.1/chr17/variants.parquet", "content differs")
    assert str(row.data["expected"]) != str(row.data["got"])
    assert "Materialise the partition again" in shown["remedy"].value
    assert all(said in failure_of(result) for said in ("1 fault, 1 partition damaged", "variants.parquet"))


def test_damage_closes_the_gate_and_repair_opens_it(world: BuiltWorld) -> None:
    path = world.open(GNOMAD, "chr17").file("variants.parquet")
    good = path.read_bytes()
    flip(world, GNOMAD, "chr17", "variants.parquet")
    assert gate_is_open(world), "nobody has looked yet"
    assert not verify(world)[0].success
    assert not gate_is_open(world)
    # By a rebuild, which finds the damage.
    world.make(GNOMAD, "chr17")
    assert gate_is_open(world)
    # By hand; verified again.
    flip(world, GNOMAD, "chr17", "variants.parquet")
    assert not verify(world)[0].success
    assert not gate_is_open(world)
    path.write_bytes(good)
    assert verify(world)[0].success
    assert gate_is_open(world)


def test_what_was_materialised_and_is_gone_fails(world: BuiltWorld) -> None:
    shutil.rmtree(world.open(GNOMAD, "chr20").directory)
    link = world.root / "windows/tiny/chr17"
    shutil.rmtree(link.resolve())
    link.unlink()
    _, failed = failed_of(world)
    # The place of states follows from the index.
    assert set(failed) == {(GNOMAD, "chr20"), ("windows/index", "chr17"), ("embeddings/cache", "chr17")}
    for (_, partition), evaluation in failed.items():
        assert f"{partition}: nothing is published" in evaluation.metadata["problems"].value


def test_a_manifest_that_cannot_be_read_fails_its_partition(world: BuiltWorld) -> None:
    (world.open("windows/index", "chr17").directory / "manifest.json").write_bytes(b"{")
    _, failed = failed_of(world)
    assert set(failed) == {("windows/index", "chr17"), ("embeddings/cache", "chr17")}
    assert "manifest.json" in failed["windows/index", "chr17"].metadata["problems"].value


def test_another_artefact_in_its_place_fails(world: BuiltWorld) -> None:
    shelf = world.root / "gnomad/4.1"
    other = (shelf / "chr20").resolve()
    mine = (shelf / "chr17").resolve()
    moved = mine.with_name(mine.name.replace(mine.name.rpartition(".")[2], other.name.rpartition(".")[2]))
    shutil.copytree(other, moved)
    (shelf / "chr17").unlink()
    (shelf / "chr17").symlink_to(f".gen/{moved.name}")
    _, failed = failed_of(world)
    assert "another artefact" in failed[GNOMAD, "chr17"].metadata["problems"].value


def test_damage_in_a_superseded_version_fails_the_job_and_no_partition(world: BuiltWorld) -> None:
    old = world.open(GNOMAD, "chr17").directory
    world.write_gnomad("chr17", world.gnomad_records("chr17")[:-1])
    world.make(GNOMAD, "chr17")
    (old / "variants.parquet").write_bytes(b"")
    result, evaluations = verify(world)
    assert not result.success
    assert all(evaluation.passed for evaluation in evaluations.values())
    assert all(said in failure_of(result) for said in (".gen/chr17.", "1 fault, 0 partitions damaged"))


def test_what_was_built_again_meanwhile_is_not_spoken_ill_of(world: BuiltWorld) -> None:
    damage = Finding(FindingKind.CORRUPT, "gnomad/4.1/chr17", "variants.parquet", "content differs")
    manifest = world.open(GNOMAD, "chr17").manifest
    verified = Verified("gnomad/4.1/chr17", world.root / "gnomad/4.1/chr17", manifest, (damage,))
    checks = PartitionChecks(world.workspace(), world.instance, started_s=0.0)
    assert list(checks.found(verified)) == []
    assert (checks.passed, checks.failed) == (0, 0)
    (evaluation,) = PartitionChecks(world.workspace(), world.instance).found(verified)
    assert not evaluation.passed


def test_progress_is_logged(world: BuiltWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_log, "INTERVAL_S", 0.0)
    result, _ = verify(world)
    lines = [entry.user_message for entry in world.instance.all_logs(result.run_id) if not entry.is_dagster_event]
    assert any(re.search(r"[kM]B of [\d.]+ [kM]B.* \(\d+ %\)", line) for line in lines)
    assert f"{len(HELD)} artefacts as in the manifest, 0 not" in lines


@pytest.mark.nightly
def test_memory_does_not_grow_with_the_files(world: BuiltWorld) -> None:
    size_bytes = 96 << 20

    def write(work: Path) -> BuildReport:
        with (work / "not_windows.bin").open("wb") as handle:
            handle.truncate(size_bytes)
        return BuildReport()

    artefact = ArtefactId(corpus_windows.key, "mrna_evo2")
    plan = BuildPlan(artefact, corpus_windows.location(world.workspace(), artefact.partition), "1", {}, (), write)
    build(world.workspace().root, plan)
    tracemalloc.start()
    _, evaluations = verify(world)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert evaluations["corpus/windows", "mrna_evo2"].passed
    assert peak_bytes < size_bytes / 3
