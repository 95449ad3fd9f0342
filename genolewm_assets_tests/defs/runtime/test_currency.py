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

from genolewm_assets.defs.assets.graph import GATED, PUBLISHING
from genolewm_assets.defs.runtime.currency import Currency
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


def seen(world: BuiltWorld, key: str, partition: str | None, state: str, *reasons: str) -> None:
    """Check the state of a partition, and that the reasons stand in its line."""
    found = currency(world, key, partition)
    assert found.state == state, found.line()
    assert all(reason in found.line() for reason in reasons), found.line()


def publish(world: BuiltWorld, key: str, partition: str | None = None) -> None:
    workspace = world.workspace()
    build(workspace.root, GATED[key].build_plan(workspace, partition, NO_PROGRESS))


def append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


def change_genome(world: BuiltWorld) -> None:
    """Publish another genome: the same bases, in one line more."""
    world.write_fasta(dict(reversed(world.sequences.items())))
    publish(world, "reference/genome")


def change_shard(world: BuiltWorld) -> None:
    change_genome(world)
    publish(world, "clinvar/shard", SECOND)


def change_corpus(world: BuiltWorld) -> None:
    world.edit_catalog(corpus={"seed": 5})
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
    world.edit_catalog(clinvar={"listing": "elsewhere"})


def name_another_predecessor(world: BuiltWorld) -> None:
    world.write_clinvar(EARLIEST, header_date=EARLIEST)
    publish(world, "clinvar/release", EARLIEST)
    publish(world, "clinvar/shard", EARLIEST)
    world.edit_catalog(clinvar={"predecessors": {SECOND: EARLIEST}})


def withdraw_newest_package(world: BuiltWorld) -> None:
    (world.root / "packages" / SECOND / "latest.json").unlink()


def pin_by_hand(world: BuiltWorld) -> None:
    path = world.root / "packages/current.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "pin": FIRST}))


Change = Callable[[BuiltWorld], object]
GENOME, MD5 = "input reference/genome: built from manifest ", "0" * 32


@dataclass(frozen=True)
class Case:
    """A partition, and the changes after which a build would read something else; each with a part of the reason.

    Where ``recipe`` is None, no parameter is in the catalogue, and the test changes the recipe itself.
    """

    partition: str | None
    recipe: Mapping[str, Mapping[str, Any]] | Change | None
    recipe_reason: str
    source: Change = change_genome
    source_reason: str = GENOME


def appending(*path: str) -> Change:
    return lambda world: append(world.folder.joinpath(*path))


def fewer_alleles(world: BuiltWorld) -> None:
    world.write_gnomad("chr17", world.gnomad_records("chr17")[:-1])


CASES = {
    "reference/genome": Case(
        *(None, {"genome": {"md5": MD5}}, f'recipe source expected_md5: built from nothing, now "{MD5}"'),
        *(appending("genome.fa.gz"), "recipe source md5: built from "),
    ),
    "windows/index": Case("chr17", {"windows": {"stride_bp": 600}}, "stride_bp: built from 800, now 600"),
    "corpus/records": Case(
        *("mrna_evo2", {"corpus": {"records_per_piece": 50}}, "recipe records_per_piece: built from 65536, now 50"),
        *(appending("corpus/mrna_evo2/part-00000.parquet"), "recipe sources 0 md5: built from "),
    ),
    "corpus/windows": Case("mrna_evo2", {"corpus": {"seed": 5}}, "now 5"),
    "gnomad/shard": Case(
        *("chr17", {"gnomad": {"min_af": 0.02}}, "recipe params min_af: built from 0.01, now 0.02"),
        *(fewer_alleles, "recipe source md5: built from "),
    ),
    "clinvar/release": Case(
        *(SECOND, name_another_listing, "recipe source md5: built"),
        *(replace_release, "recipe source md5: built from "),
    ),
    "clinvar/shard": Case(
        SECOND, {"clinvar": {"max_ref_mismatch_fraction": 0.5}}, "recipe max_ref_mismatch_fraction: built from "
    ),
    "clinvar/changes": Case(
        *(SECOND, name_another_predecessor, f'recipe predecessor: built from "{FIRST}", now "{EARLIEST}"'),
        *(change_shard, f"input clinvar/shard[{SECOND}]: built from manifest "),
    ),
    "embeddings/cache": Case(
        *("chr17", {"encoder": {"layer": 1}}, "layer: built from 2, now 1"),
        *(appending("root/models/tiny-llama-random/config.json"), "settings_sha256: built from "),
    ),
    "embeddings/corpus": Case(
        *("mrna_evo2", {"encoder": {"block_tokens": 32}}, "block_tokens: built from 64, now 32"),
        *(change_corpus, "input corpus/windows[mrna_evo2]: built from manifest "),
    ),
    "holdouts/manifest": Case(SECOND, {"holdouts": {"haplotype_fraction": 0.5}}, "haplotype_fraction: built from "),
    "packages/split": Case(SECOND, {"packages": {"max_visits": 41}}, "max_visits: built from 40, now 41"),
    "packages/audit": Case(SECOND, {"packages": {"audit_tuples": 501}}, "recipe tuples: built from 3000, now 501"),
    "packages/current": Case(
        *(None, pin_by_hand, f"(pinned: {FIRST})", withdraw_newest_package, "input: packages/2025-01-05/")
    ),
    "mito/genomes": Case(None, {"mito": {"split": {"seed": 5}}}, "recipe split seed: built from "),
    "mito/tokens": Case(None, {"mito": {"k": 5}}, "built from 6, now 5"),
    "mito/variants": Case(SECOND, None, "recipe another: built from nothing, now 1"),
    "forensic/profiles": Case(
        *(NAME, {"forensic": {"analytical_rfu": 200.0}}, "analytical_rfu: built from 175.0, now 200.0"),
        *(appending("runs", NAME, "annotations.csv"), "recipe files annotations.csv: built from "),
    ),
}


def test_every_publishing_asset_has_a_case() -> None:
    # The catalogue of these tests turns these off: see defs/assets/test_frozen and defs/assets/packages.
    assert {*CASES, "tuples/frozen", "packages/evaluation"} == set(PUBLISHING)


@pytest.mark.parametrize("key", CASES)
def test_changes_are_seen_and_named(world: BuiltWorld, key: str) -> None:
    case, asset = CASES[key], PUBLISHING[key]
    found = currency(world, key, case.partition)
    assert found == Currency(found.artefact, "current")

    newer = replace(asset, code_version="99").currency(world.workspace(), case.partition)
    assert newer.state == "stale"
    assert newer.reasons == (f"code version: built by {asset.code_version}, now 99",)

    if case.recipe is None:
        plan = asset.plan
        asset = replace(asset, plan=lambda *given: replace(made := plan(*given), recipe={**made.recipe, "another": 1}))
    elif isinstance(case.recipe, Mapping):
        world.edit_catalog(**case.recipe)
    else:
        case.recipe(world)
    after_recipe = asset.currency(world.workspace(), case.partition)
    assert after_recipe.state == "stale", after_recipe.line()
    assert case.recipe_reason in after_recipe.line()


@pytest.mark.parametrize("key", CASES)
def test_a_changed_source_or_input_is_seen_and_named(world: BuiltWorld, key: str) -> None:
    case = CASES[key]
    case.source(world)
    seen(world, key, case.partition, "stale", case.source_reason)


def test_a_build_makes_it_current_again(world: BuiltWorld) -> None:
    world.write_gnomad("chr17", world.gnomad_records("chr17")[:-1])
    seen(world, "gnomad/shard", "chr17", "stale")
    publish(world, "gnomad/shard", "chr17")
    for contig in ("chr17", "chr20"):
        seen(world, "gnomad/shard", contig, "current")
    seen(world, "holdouts/manifest", FIRST, "stale", "input gnomad/shard[chr17]: built from manifest ")


def test_a_file_that_was_touched_or_has_no_record_is_settled_by_its_content(world: BuiltWorld) -> None:
    os.utime(world.folder / "genome.fa.gz")
    assert currency(world, "reference/genome", None).state == "current"
    shutil.rmtree(world.root / "work/digests")
    assert currency(world, "reference/genome", None).state == "current"
    append(world.folder / "genome.fa.gz")
    assert 'now "unread: ' in currency(world, "reference/genome", None).line()


def test_an_older_cache_is_found_where_the_newest_one_would_lie_elsewhere(world: BuiltWorld) -> None:
    append(world.root / "models/tiny-llama-random/model.safetensors")
    seen(world, "embeddings/cache", "chr20", "stale", "weights_sha256: built from ", "model.safetensors unread: ")
    shutil.rmtree(world.root / "embeddings")
    assert currency(world, "embeddings/cache", "chr20").state == "not built"


def test_what_cannot_be_looked_at_is_not_compared(world: BuiltWorld, site: WebServer) -> None:
    world.edit_catalog(genome={"fasta": site.url("absent.fa.gz")})
    seen(world, "reference/genome", None, "not compared", "does not exist")
    world.workspace().root.link_of("windows/tiny/chr17").unlink()
    seen(world, "holdouts/manifest", FIRST, "not compared", "windows/index[chr17]")
    assert currency(world, "windows/index", "chr17").state == "not built"


def test_an_input_whose_latest_build_failed_is_not_compared_and_is_itself_stale(world: BuiltWorld) -> None:
    world.write_gnomad("chr20", world.gnomad_records("chr20", wrong_ref=5))
    with pytest.raises(Exception, match="failed its checks"):
        publish(world, "gnomad/shard", "chr20")
    seen(world, "gnomad/shard", "chr20", "stale", "the latest build failed")
    seen(world, "holdouts/manifest", FIRST, "not compared", "gnomad/shard[chr20]")


def test_a_release_that_is_no_longer_offered_keeps_its_meaning(world: BuiltWorld) -> None:
    for file in (world.folder / "clinvar").glob(f"*{FIRST.replace('-', '')}*"):
        file.unlink()
    assert currency(world, "clinvar/release", FIRST).state == "current"


def test_another_policy_of_the_holdouts_is_a_reason_for_the_package(world: BuiltWorld) -> None:
    world.edit_catalog(holdouts={"haplotype_fraction": 0.5})
    seen(world, "packages/split", SECOND, "stale", "recipe policy haplotype_fraction: built from ")


def test_no_file_is_hashed_and_none_is_written(world: BuiltWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    def listing() -> dict[str, tuple[int, int]]:
        files = {str(path): path.lstat() for path in world.folder.rglob("*") if not path.is_dir()}
        return {path: (stat.st_size, stat.st_mtime_ns) for path, stat in files.items()}

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
