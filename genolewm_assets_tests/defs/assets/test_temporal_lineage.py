"""T0 in the graph: an input of holdouts and package that the manifests name, and no dependency on every release."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from genolewm_assets.defs.assets import holdouts
from genolewm_assets.defs.assets.graph import GATED
from genolewm_assets.holdouts.temporal import KEPT_FILE
from genolewm_assets.progress import NO_PROGRESS
from genolewm_assets_tests.defs.conftest import copied
from genolewm_assets_tests.worlds.graph.built_world import Automation, BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import CORPUS, LINEAR, RELEASES, bytes_of, failure_of, shown_of

T0, BETWEEN = RELEASES
NEW, NEWER = "2025-06-01", "2026-01-11"
PRODUCTS = ("holdouts/manifest", "packages/split")

world = copied


def shards_read(world: BuiltWorld, asset: str, release: str) -> list[str | None]:
    inputs = world.open(asset, release).manifest.inputs
    return [each.partition for each in inputs if each.asset == "clinvar/shard"]


def temporal(world: BuiltWorld, release: str) -> object:
    recipes = [world.open(asset, release).manifest.recipe["policy"] for asset in PRODUCTS]
    assert recipes[0] == recipes[1]
    return recipes[0]["temporal"]  # type: ignore[index,call-overload]


def changed_records(world: BuiltWorld) -> list[str]:
    """Return records of which every fifth, of uncertain significance before, is pathogenic, and half have no star."""
    return [
        record.replace("CLNSIG=Uncertain_significance", "CLNSIG=Pathogenic").replace(
            "CLNREVSTAT=criteria_provided,_single_submitter" if n % 10 == 4 else "-", "CLNREVSTAT=no_assertion_provided"
        )
        for n, record in enumerate(world.clinvar_records())
    ]


def test_t0_is_an_input_that_the_manifests_name_and_the_ui_shows(
    world: BuiltWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The predecessor of the newest release is not its T0."""
    world.register_release(NEW)
    world.write_clinvar(NEW, header_date=NEW, records=changed_records(world))
    result = world.run_job("refresh_release", partition_key=NEW)
    assert result.success
    assert world.open("clinvar/changes", NEW).manifest.recipe["predecessor"] == BETWEEN
    for asset in PRODUCTS:
        # The holdouts keep the sides of the package before, and so read its alleles.
        assert shards_read(world, asset, NEW) == ([T0, BETWEEN, NEW] if asset == "holdouts/manifest" else [T0, NEW])
        shown = shown_of(result, asset).metadata["temporal"].value
        assert shown == f"T0 {T0}, T1 {NEW}: the catalogue names T0"
    assert temporal(world, NEW) == [T0, NEW]
    assert world.open("holdouts/manifest", NEW).manifest.recipe["keeps"] == BETWEEN
    assert temporal(world, T0) is None
    assert world.open("holdouts/manifest", T0).manifest.counts["temporal.not_before"] == 1
    # Newly labelled with a star: held out. Without one: in training, as the newest release has it.
    package = world.open("packages/split", NEW)
    train = pq.read_table(package.file("variants/train.parquet")).to_pylist()
    rows = {row["clinvar_id"]: (row["label"], row["stars"]) for row in train if row["source"] == "clinvar"}
    listed = pq.read_table(package.file("holdouts/alleles.parquet")).to_pylist()
    held = {row["clinvar_id"] for row in listed if row["holdout"] == "holdout-temporal"}
    newly = {n + 1 for n in range(len(world.clinvar_records())) if n % 5 == 4}
    assert held == {number for number in newly if number % 10 == 0}
    assert all(rows[number] == ("P", 0) for number in newly - held if number in rows)
    assert any(number in rows for number in newly - held)
    # What the package before found is taken over, of all windows; without it the bytes are the same.
    kept, take_over = [], holdouts._kept_of
    for name, take in (
        ("with", lambda *given: kept.append(take_over(*given)) or kept[0]),
        ("without", lambda *_: None),
    ):
        monkeypatch.setattr(holdouts, "_kept_of", take)
        folder = tmp_path / name
        folder.mkdir()
        GATED["holdouts/manifest"].build_plan(world.workspace(), NEW, NO_PROGRESS).write(folder)
        for file in ("compared.parquet", "similar.parquet"):
            assert (folder / file).read_bytes() == world.open("holdouts/manifest", NEW).file(file).read_bytes()
    assert kept[0].pieces == {*LINEAR, *CORPUS}


@pytest.mark.nightly
def test_the_same_root_whatever_was_built_first(world: BuiltWorld) -> None:
    """Months instead of a name: T0 is that of the newest release, also if an older one is built first."""
    world.edit_catalog(holdouts={"temporal": {"months": 12}})
    for release in (NEW, NEWER):
        world.register_release(release)
        assert world.materialize("clinvar/release", "clinvar/shard", partition=release).success
    seen = []
    for order in ((NEW, NEWER), (NEWER, NEW)):
        (world.root / KEPT_FILE).unlink(missing_ok=True)
        for release in order:
            assert world.materialize(*PRODUCTS, partition=release).success
        seen.append({name: data for name, data in bytes_of(world.root).items() if name.startswith(("hold", "pack"))})
        assert (temporal(world, NEW), temporal(world, NEWER)) == ([T0, NEW], [BETWEEN, NEWER])
    assert seen[0] == seen[1]


def test_a_shard_of_t0_that_is_missing_is_named(world: BuiltWorld) -> None:
    world.edit_catalog(holdouts={"temporal": "2023-01-01"})
    message = failure_of(world.materialize("holdouts/manifest", partition=BETWEEN))
    said = f"temporal holdout of {BETWEEN}: T0 is 2023-01-01, but its clinvar/shard is not published"
    assert message.startswith(said)


@pytest.mark.nightly
def test_releases_of_two_genomes_are_not_compared(world: BuiltWorld) -> None:
    world.write_fasta({name: bases.lower() for name, bases in world.sequences.items()})
    world.make("reference/genome")
    world.make("clinvar/shard", BETWEEN)
    message = failure_of(world.materialize("holdouts/manifest", partition=BETWEEN))
    assert f"clinvar/shard[{T0}] and clinvar/shard[{BETWEEN}] were built from different genomes" in message
    assert world.materialize("clinvar/shard", partition=T0).success
    world.make("holdouts/manifest", BETWEEN)


@pytest.mark.nightly
def test_training_at_t0_reads_t0(world: BuiltWorld) -> None:
    world.edit_catalog(packages={"knowledge": "T0"})
    world.register_release(NEW)
    world.write_clinvar(NEW, header_date=NEW, records=changed_records(world))
    assert world.run_job("refresh_release", partition_key=NEW).success
    package = world.open("packages/split", NEW)
    assert package.manifest.recipe["knowledge"] == "T0"
    train = pq.read_table(package.file("variants/train.parquet"), columns=["source", "stars"]).to_pylist()
    assert {row["stars"] for row in train if row["source"] == "clinvar"} == {1}
    # Where there is no T0, training has what there is, and the package says so.
    assert world.materialize("packages/split", partition=T0).success
    assert world.open("packages/split", T0).manifest.recipe["knowledge"] == "newest"


@pytest.mark.nightly
def test_a_new_release_builds_no_older_package(world: BuiltWorld) -> None:
    """Not even one after whose T0 it would come: T0 stays where it is, and no package depends on every release."""
    world.edit_catalog(holdouts={"temporal": {"months": 3}})
    for asset in PRODUCTS:
        assert world.materialize(asset, partition=BETWEEN).success
    automation = Automation(world)
    automation.tick()
    for release in ("2024-08-04", NEW):
        world.register_release(release)
        assert world.run_job("refresh_release", partition_key=release).success
    requested, _ = automation.tick()
    assert requested == {"packages/current": {None}}
    assert temporal(world, BETWEEN) == [T0, BETWEEN]
