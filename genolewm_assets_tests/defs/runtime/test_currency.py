"""``built_from_current_inputs``: fails, for every asset, after a change of source, of code version and of recipe."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from genolewm_assets.defs.assets.graph import GATED, PUBLISHING
from genolewm_assets.defs.runtime.currency import Currency
from genolewm_assets.defs.runtime.gates import GatedAsset, Plan
from genolewm_assets.progress import NO_PROGRESS
from genolewm_assets.store.artefacts.build import build
from genolewm_assets_tests.servers.web_server import WebServer
from genolewm_assets_tests.worlds.forensic.run_folders import NAME
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES

FIRST, SECOND = RELEASES
EARLIEST = "2023-06-04"


@pytest.fixture
def world(built: BuiltWorld, tmp_path: Path) -> BuiltWorld:
    """Return a copy without Dagster's history, which no comparison reads."""
    other = copy.copy(built)
    other.folder = tmp_path / "world"
    shutil.copytree(built.folder, other.folder, symlinks=True, ignore=shutil.ignore_patterns("history", "dagster"))
    return other


def currency(world: BuiltWorld, key: str, partition: str | None) -> Currency:
    return PUBLISHING[key].currency(world.workspace(), partition)


def publish(world: BuiltWorld, key: str, partition: str | None = None) -> None:
    workspace = world.workspace()
    build(workspace.root, GATED[key].build_plan(workspace, partition, NO_PROGRESS))


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def edit_catalog(world: BuiltWorld, **sections: Mapping[str, Any]) -> None:
    document = yaml.safe_load(world.catalog.read_text())
    for name, keys in sections.items():
        document[name] = {**document.get(name, {}), **keys}
    world.catalog.write_text(yaml.safe_dump(document))


def catalog(**sections: Mapping[str, Any]) -> Callable[[BuiltWorld], None]:
    return lambda world: edit_catalog(world, **sections)


def change_genome(world: BuiltWorld) -> None:
    """Publish another genome: the same bases, in one line more."""
    world.write_fasta(dict(reversed(world.sequences.items())))
    publish(world, "reference/genome")


def change_shard(world: BuiltWorld) -> None:
    change_genome(world)
    publish(world, "clinvar/shard", SECOND)


def change_corpus(world: BuiltWorld) -> None:
    edit_catalog(world, corpus={"seed": 5})
    publish(world, "corpus/windows", "mrna_evo2")


def replace_release(world: BuiltWorld) -> None:
    """Let the server offer other bytes under the name of a release."""
    world.write_clinvar(SECOND, header_date=SECOND, records=world.clinvar_records()[:-1])


def name_another_listing(world: BuiltWorld) -> None:
    """Name a folder that has other bytes under the name of a release."""
    there, here = world.folder / "elsewhere", world.folder / "clinvar"
    shutil.copytree(here, there)
    replace_release(world)
    here.rename(world.folder / "swapped")
    there.rename(here)
    (world.folder / "swapped").rename(there)
    edit_catalog(world, clinvar={"listing": "elsewhere"})


def name_another_predecessor(world: BuiltWorld) -> None:
    world.write_clinvar(EARLIEST, header_date=EARLIEST)
    publish(world, "clinvar/release", EARLIEST)
    publish(world, "clinvar/shard", EARLIEST)
    edit_catalog(world, clinvar={"predecessors": {SECOND: EARLIEST}})


def withdraw_newest_package(world: BuiltWorld) -> None:
    (world.root / "packages" / SECOND / "latest.json").unlink()


def pin_by_hand(world: BuiltWorld) -> None:
    path = world.root / "packages/current.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "pin": FIRST}))


def no_parameter(_world: BuiltWorld) -> None:
    """An asset without parameters of the catalogue: the test changes the recipe itself."""


@dataclass(frozen=True)
class Case:
    """A partition, and the changes after which a build would read something else; each with a part of the reason."""

    partition: str | None
    source: Callable[[BuiltWorld], None]
    source_reason: str
    recipe: Callable[[BuiltWorld], None]
    recipe_reason: str


GENOME = "input reference/genome: built from manifest "

CASES = {
    "reference/genome": Case(
        None,
        lambda world: append(world.folder / "genome.fa.gz"),
        "recipe source md5: built from ",
        catalog(genome={"md5": "0" * 32}),
        f'recipe source expected_md5: built from nothing, now "{"0" * 32}"',
    ),
    "windows/index": Case(
        "chr17", change_genome, GENOME, catalog(windows={"stride_bp": 600}), "stride_bp: built from 800, now 600"
    ),
    "corpus/windows": Case(
        "mrna_evo2",
        lambda world: append(world.folder / "corpus/mrna_evo2/part-00000.parquet"),
        "recipe sources 0 md5: built from ",
        catalog(corpus={"seed": 5}),
        "now 5",
    ),
    "gnomad/shard": Case(
        "chr17",
        lambda world: world.write_gnomad("chr17", world.gnomad_records("chr17")[:-1]),
        "recipe source md5: built from ",
        catalog(gnomad={"min_af": 0.02}),
        "recipe params min_af: built from 0.01, now 0.02",
    ),
    "clinvar/release": Case(
        SECOND, replace_release, "recipe source md5: built from ", name_another_listing, "recipe source md5: built"
    ),
    "clinvar/shard": Case(
        SECOND,
        change_genome,
        GENOME,
        catalog(clinvar={"max_ref_mismatch_fraction": 0.5}),
        "recipe max_ref_mismatch_fraction: built from ",
    ),
    "clinvar/changes": Case(
        SECOND,
        change_shard,
        f"input clinvar/shard[{SECOND}]: built from manifest ",
        name_another_predecessor,
        f'recipe predecessor: built from "{FIRST}", now "{EARLIEST}"',
    ),
    "embeddings/cache": Case(
        "chr17",
        lambda world: append(world.root / "models/tiny-llama-random/config.json"),
        "settings_sha256: built from ",
        catalog(encoder={"layer": 1}),
        "layer: built from 2, now 1",
    ),
    "embeddings/corpus": Case(
        "mrna_evo2",
        change_corpus,
        "input corpus/windows[mrna_evo2]: built from manifest ",
        catalog(encoder={"block_tokens": 32}),
        "block_tokens: built from 64, now 32",
    ),
    "holdouts/manifest": Case(
        SECOND, change_genome, GENOME, catalog(holdouts={"haplotype_fraction": 0.5}), "haplotype_fraction: built from "
    ),
    "packages/split": Case(
        SECOND, change_genome, GENOME, catalog(packages={"max_visits": 41}), "max_visits: built from 40, now 41"
    ),
    "packages/audit": Case(
        SECOND,
        change_genome,
        GENOME,
        catalog(packages={"audit_tuples": 501}),
        "recipe tuples: built from 3000, now 501",
    ),
    "packages/current": Case(
        None, withdraw_newest_package, "input: packages/2025-01-05/", pin_by_hand, f"(pinned: {FIRST})"
    ),
    "mito/genomes": Case(
        None, change_genome, GENOME, catalog(mito={"split": {"seed": 5}}), "recipe split seed: built from "
    ),
    "mito/tokens": Case(None, change_genome, GENOME, catalog(mito={"k": 5}), "built from 6, now 5"),
    "mito/variants": Case(SECOND, change_genome, GENOME, no_parameter, "recipe another: built from nothing, now 1"),
    "forensic/profiles": Case(
        NAME,
        lambda world: append(world.folder / "runs" / NAME / "annotations.csv"),
        "recipe files annotations.csv: built from ",
        catalog(forensic={"analytical_rfu": 200.0}),
        "analytical_rfu: built from 175.0, now 200.0",
    ),
}


def test_every_publishing_asset_has_a_case() -> None:
    # The catalogue of these tests freezes no epochs: see defs/assets/test_frozen.
    assert {*CASES, "tuples/frozen"} == set(PUBLISHING)
    assert len(CASES) == 17


@pytest.mark.parametrize("key", CASES)
def test_changes_are_seen_and_named(world: BuiltWorld, key: str) -> None:
    case, asset = CASES[key], PUBLISHING[key]
    assert currency(world, key, case.partition) == Currency(currency(world, key, case.partition).artefact, "current")

    newer = replace(asset, code_version="99").currency(world.workspace(), case.partition)
    assert newer.state == "stale"
    assert newer.reasons == (f"code version: built by {asset.code_version}, now 99",)

    if case.recipe is no_parameter:
        asset = with_another_parameter(asset)
    case.recipe(world)
    after_recipe = asset.currency(world.workspace(), case.partition)
    assert after_recipe.state == "stale", after_recipe.line()
    assert case.recipe_reason in after_recipe.line()


@pytest.mark.parametrize("key", CASES)
def test_a_changed_source_or_input_is_seen_and_named(world: BuiltWorld, key: str) -> None:
    case = CASES[key]
    case.source(world)
    after = currency(world, key, case.partition)
    assert after.state == "stale", after.line()
    assert case.source_reason in after.line()


def with_another_parameter(asset: object) -> GatedAsset:
    assert isinstance(asset, GatedAsset)
    plan = asset.plan

    def planned(*given: Any) -> Plan:
        made = plan(*given)
        return replace(made, recipe={**made.recipe, "another": 1})

    return replace(asset, plan=planned)


def test_a_build_makes_it_current_again(world: BuiltWorld) -> None:
    world.write_gnomad("chr17", world.gnomad_records("chr17")[:-1])
    assert currency(world, "gnomad/shard", "chr17").state == "stale"
    publish(world, "gnomad/shard", "chr17")
    assert currency(world, "gnomad/shard", "chr17").state == "current"
    assert currency(world, "gnomad/shard", "chr20").state == "current"
    reason = "input gnomad/shard[chr17]: built from manifest "
    assert reason in currency(world, "holdouts/manifest", FIRST).line()


def test_a_file_that_was_touched_or_has_no_record_is_settled_by_its_content(world: BuiltWorld) -> None:
    os.utime(world.folder / "genome.fa.gz")
    assert currency(world, "reference/genome", None).state == "current"
    shutil.rmtree(world.root / "work/digests")
    assert currency(world, "reference/genome", None).state == "current"
    append(world.folder / "genome.fa.gz")
    assert 'now "unread: ' in currency(world, "reference/genome", None).line()


def test_an_older_cache_is_found_where_the_newest_one_would_lie_elsewhere(world: BuiltWorld) -> None:
    append(world.root / "models/tiny-llama-random/model.safetensors")
    found = currency(world, "embeddings/cache", "chr20")
    assert found.state == "stale"
    assert "weights_sha256: built from " in found.line()
    assert "model.safetensors unread: " in found.line()
    shutil.rmtree(world.root / "embeddings")
    assert currency(world, "embeddings/cache", "chr20").state == "not built"


def test_what_cannot_be_looked_at_is_not_compared(world: BuiltWorld, site: WebServer) -> None:
    edit_catalog(world, genome={"fasta": site.url("absent.fa.gz")})
    assert currency(world, "reference/genome", None).state == "not compared"
    assert "does not exist" in currency(world, "reference/genome", None).line()

    world.workspace().root.link_of("windows/tiny/chr17").unlink()
    unpublished = currency(world, "holdouts/manifest", FIRST)
    assert unpublished.state == "not compared"
    assert "windows/index[chr17]" in unpublished.line()
    assert currency(world, "windows/index", "chr17").state == "not built"


def test_an_input_whose_latest_build_failed_is_not_compared_and_is_itself_stale(world: BuiltWorld) -> None:
    world.write_gnomad("chr20", world.gnomad_records("chr20", wrong_ref=5))
    with pytest.raises(Exception, match="failed its checks"):
        publish(world, "gnomad/shard", "chr20")
    assert "the latest build failed" in currency(world, "gnomad/shard", "chr20").line()
    assert currency(world, "gnomad/shard", "chr20").state == "stale"
    reader = currency(world, "holdouts/manifest", FIRST)
    assert reader.state == "not compared"
    assert "gnomad/shard[chr20]" in reader.line()


def test_a_release_that_is_no_longer_offered_keeps_its_meaning(world: BuiltWorld) -> None:
    for file in (world.folder / "clinvar").glob(f"*{FIRST.replace('-', '')}*"):
        file.unlink()
    assert currency(world, "clinvar/release", FIRST).state == "current"


def test_another_policy_of_the_holdouts_is_a_reason_for_the_package(world: BuiltWorld) -> None:
    edit_catalog(world, holdouts={"haplotype_fraction": 0.5})
    found = currency(world, "packages/split", SECOND)
    assert found.state == "stale"
    assert "recipe policy haplotype_fraction: built from " in found.line()


def test_no_file_is_hashed_and_none_is_written(world: BuiltWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def listing() -> dict[str, tuple[int, int]]:
        return {
            str(path): (path.lstat().st_size, path.lstat().st_mtime_ns)
            for path in world.folder.rglob("*")
            if not path.is_dir()
        }

    def refused(*_: object) -> str:
        raise AssertionError("a file is hashed")

    workspace, before = world.workspace(), listing()
    monkeypatch.setattr("genolewm_assets.sources.files.digests._read", refused)
    monkeypatch.setattr("genolewm_assets.store.files.digests.measure_file", refused)
    for key, case in CASES.items():
        assert PUBLISHING[key].currency(workspace, case.partition).state == "current", key
    assert listing() == before


def test_a_root_may_be_moved_with_its_sources(world: BuiltWorld) -> None:
    moved = world.folder.with_name("moved")
    world.folder.rename(moved)
    world.folder = moved
    assert currency(world, "reference/genome", None).state == "current"
