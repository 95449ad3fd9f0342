"""``clinvar/changes`` on the tiny world: what it counts, which release it compares with, and who reads it."""

from __future__ import annotations

import dagster as dg
import pyarrow.parquet as pq
import pytest

from genolewm_assets.defs.assets.clinvar_changes import CHANGES_FILE, describe_changes, predecessor_of
from genolewm_assets.defs.runtime.gates import STANDING_CHECKS
from genolewm_assets.errors import ConfigurationError, counted
from genolewm_assets.store.artefacts.build import build
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.files.atomic import write_atomic
from genolewm_assets.variants.change_checks import CHANGE_CHECKS
from genolewm_assets_tests.pictures import parse, texts_in
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import (
    RELEASES,
    TinyWorld,
    blocking_checks,
    failed_checks,
    refusal_of,
)
from genolewm_assets_tests.worlds.store.plans import make_plan

RELEASE, SHARD, CHANGES, HOLDOUTS = "clinvar/release", "clinvar/shard", "clinvar/changes", "holdouts/manifest"
EARLIER, LATER = RELEASES
OLDEST, BETWEEN = "2023-06-04", "2024-06-02"


def publish(world: TinyWorld, *releases: str) -> None:
    """Download and shard releases, after writing those that the world does not offer yet."""
    world.materialize("reference/genome")
    for release in releases:
        if release not in RELEASES:
            world.write_clinvar(release, header_date=release)
        world.instance.add_dynamic_partitions("clinvar_release", [release])
        assert world.materialize(RELEASE, SHARD, partition=release).success


def compare(world: TinyWorld, release: str, predecessor: str | None = None) -> dg.ExecuteInProcessResult:
    ops: dict[str, object] = {"clinvar__changes": {"config": {"predecessor": predecessor}}}
    return world.materialize(CHANGES, partition=release, ops=ops if predecessor else None)


def compared_with(world: TinyWorld, release: str) -> object:
    assert compare(world, release).success
    return world.open(CHANGES, release).manifest.recipe["predecessor"]


@pytest.fixture
def changed(world: TinyWorld) -> TinyWorld:
    """A later release that lacks one allele, says something else of three, and has chr20, which the earlier lacks."""
    records = world.clinvar_records()[1:]
    records[0] = records[0].replace("CLNSIG=Likely_pathogenic", "CLNSIG=Pathogenic")
    records[1] = records[1].replace("CLNSIG=Benign", "CLNSIG=Benign|risk_factor")
    fields = records[2].split("\t")
    records[2] = "\t".join([*fields[:2], "7777", *fields[3:]]).replace("_single_submitter", "_multiple_submitters")
    world.write_clinvar(LATER, header_date=LATER, records=[*records, *world.clinvar_records("chr20")])
    publish(world, *RELEASES)
    return world


def test_every_change_has_its_row_and_its_reason(changed: TinyWorld) -> None:
    result = compare(changed, LATER)
    assert result.success
    checks = {check.check_name: check for check in blocking_checks(result)}
    assert set(checks) == {*STANDING_CHECKS, *CHANGE_CHECKS}
    assert all(check.passed and check.partition == LATER for check in checks.values())
    old, new = len(changed.clinvar_records()), len(changed.clinvar_records("chr20"))
    manifest = changed.open(CHANGES, LATER).manifest
    assert manifest.recipe == {"predecessor": EARLIER}
    assert [(ref.asset, ref.partition) for ref in manifest.inputs] == [(SHARD, EARLIER), (SHARD, LATER)]
    expected = {
        **{"alleles.earlier": old, "alleles.later": old - 1 + new, "persisting": old - 1, "unchanged": old - 4},
        **{"changed": 3, "added": new, "removed": 1, "removed.P": 1, "text_changed": 2, "class_changed": 1},
        **{"class.LP_to_P": 1, "id_changed": 1, "stars_changed": 1},
    }
    assert expected.items() <= manifest.counts.items()
    table = pq.read_table(changed.open(CHANGES, LATER).file(CHANGES_FILE))
    assert table.num_rows == new + 1 + 3
    assert table["chrom"].to_pylist() == ["chr17"] * 4 + ["chr20"] * new
    (moved,) = table.filter(table["id_changed"]).to_pylist()
    assert (moved["clinvar_id_from"], moved["clinvar_id_to"], moved["stars_from"], moved["stars_to"]) == (4, 7777, 1, 2)


def test_what_the_page_shows(changed: TinyWorld) -> None:
    shown = changed.make(CHANGES, LATER).metadata
    new = len(changed.clinvar_records("chr20"))
    expected = {"dagster/partition_row_count": new + 4, "predecessor": EARLIER, "added": new, "class_changed": 1}
    assert {name: shown[name].value for name in expected} == expected
    alt, data, drawn = parse(shown["classes_from_to"])
    assert alt == f"{EARLIER} to {LATER}: {counted(new, 'allele')} added, 1 removed, 1 reclassified"
    assert {"P", "removed", "added", str(new // 5), "12", alt.partition(": ")[2]} <= texts_in(drawn)
    assert len(data) < 40_000


def test_the_first_release_has_an_empty_table(world: TinyWorld) -> None:
    publish(world, EARLIER)
    assert failed_checks(compare(world, EARLIER)) == set()
    first = world.open(CHANGES, EARLIER)
    assert first.manifest.recipe == {"predecessor": None}
    assert pq.read_metadata(first.file(CHANGES_FILE)).num_rows == 0
    assert "none" in str(describe_changes(first)["predecessor"].value)


def test_by_default_the_newest_earlier_release_that_is_published(world: TinyWorld) -> None:
    world.edit_catalog(clinvar={"predecessors": None})  # the plan chooses
    publish(world, OLDEST, LATER)
    assert compared_with(world, OLDEST) is None
    assert compared_with(world, LATER) == OLDEST


def test_the_published_predecessor_is_kept_unless_its_manifest_names_something_else(world: TinyWorld) -> None:
    world.edit_catalog(clinvar={"predecessors": None})  # the plan chooses
    workspace = world.workspace()
    for release in (OLDEST, EARLIER):
        (world.root / "clinvar" / release / "shard").mkdir(parents=True)
    named, place = {"predecessor": OLDEST}, f"clinvar/{LATER}/changes"
    changes = build(workspace.root, make_plan(artefact=ArtefactId(CHANGES, LATER), location=place, recipe=named))
    assert predecessor_of(workspace, LATER) == OLDEST
    manifest, said = changes.directory / "manifest.json", f'"predecessor": "{OLDEST}"'.encode()
    honest = manifest.read_bytes()
    assert said in honest
    for predecessor in (f'"{LATER}"', '"../../x"', "7", "{}", "null", '"'):
        manifest.write_bytes(honest.replace(said, f'"predecessor": {predecessor}'.encode()))
        assert predecessor_of(workspace, LATER) == EARLIER, predecessor


@pytest.mark.nightly
def test_a_release_that_is_published_late_moves_nothing(world: TinyWorld) -> None:
    world.edit_catalog(clinvar={"predecessors": None})  # the plan chooses
    publish(world, EARLIER, LATER)
    assert compared_with(world, LATER) == EARLIER
    before = world.open(CHANGES, LATER).manifest.sha256
    publish(world, BETWEEN)
    assert compared_with(world, LATER) == EARLIER
    assert world.open(CHANGES, LATER).manifest.sha256 == before
    assert compared_with(world, BETWEEN) == EARLIER
    assert compare(world, LATER, predecessor=BETWEEN).success
    assert compared_with(world, LATER) == BETWEEN, "what was named once is kept"


@pytest.mark.nightly
def test_a_release_without_predecessor_takes_the_first_that_comes(world: TinyWorld) -> None:
    world.edit_catalog(clinvar={"predecessors": None})  # the plan chooses
    publish(world, LATER)
    assert compared_with(world, LATER) is None
    publish(world, EARLIER)
    assert compared_with(world, LATER) == EARLIER


@pytest.mark.nightly
def test_a_release_whose_shard_was_rejected_is_passed_over(world: TinyWorld) -> None:
    world.edit_catalog(clinvar={"predecessors": None})  # the plan chooses
    publish(world, OLDEST, EARLIER, LATER)
    marker = world.root / f"rejected/clinvar/{EARLIER}/shard"
    marker.mkdir(parents=True)
    write_atomic(marker / "failure.json", b"{}")
    assert compared_with(world, LATER) == OLDEST
    assert "latest build failed" in refusal_of(compare(world, LATER, predecessor=EARLIER))
    assert world.open(CHANGES, LATER).manifest.recipe["predecessor"] == OLDEST, "the last good version stays"


def test_order_of_keys_and_what_is_no_release(world: TinyWorld) -> None:
    world.edit_catalog(clinvar={"predecessors": None})  # the plan chooses
    publish(world, OLDEST)
    workspace, base = world.workspace(), world.root / "clinvar"
    for name in (f"{OLDEST}.2", f"{OLDEST}.10", "2023-06-04.bak", "2023-99", "old"):
        (base / name).mkdir()
        (base / name / "shard").symlink_to(base / OLDEST / "shard")
    (base / "2023-12-31").mkdir()
    (base / "2023-12-31" / "shard").symlink_to(".gen/shard.0123456789ab")
    assert predecessor_of(workspace, LATER) == f"{OLDEST}.10"
    assert predecessor_of(workspace, f"{OLDEST}.10") == f"{OLDEST}.2"
    assert predecessor_of(workspace, OLDEST) is None


def test_a_name_that_is_no_earlier_release_is_refused(world: TinyWorld) -> None:
    world.edit_catalog(clinvar={"predecessors": None})  # the plan chooses
    publish(world, EARLIER)
    for named in (EARLIER, LATER, BETWEEN, "2025-13-01", "../2023-06-04", ""):
        with pytest.raises(ConfigurationError, match="not an earlier release"):
            predecessor_of(world.workspace(), EARLIER, named)
    refusal = refusal_of(compare(world, EARLIER, predecessor=LATER))
    assert f"expected a release before '{EARLIER}', got '{LATER}'" in refusal


def test_an_earlier_release_that_is_not_published_is_refused(world: TinyWorld) -> None:
    world.edit_catalog(clinvar={"predecessors": None})  # the plan chooses
    publish(world, LATER)
    assert f"clinvar/shard[{EARLIER}]" in refusal_of(compare(world, LATER, predecessor=EARLIER))
    assert not (world.root / f"clinvar/{LATER}/changes").exists()


@pytest.mark.nightly
def test_a_package_refuses_holdouts_of_another_t0(copied: BuiltWorld) -> None:
    def temporal(asset: str) -> object:
        return copied.open(asset, LATER).manifest.recipe["policy"]["temporal"]  # type: ignore[call-overload, index]

    publish(copied, OLDEST)
    copied.edit_catalog(holdouts={"temporal": OLDEST})
    refused = copied.materialize("packages/split", partition=LATER)
    assert f"temporal=['{OLDEST}', '{LATER}']" in refusal_of(refused)
    assert temporal(HOLDOUTS) == temporal("packages/split") == [EARLIER, LATER]
    copied.make(HOLDOUTS, LATER)
    copied.make("packages/split", LATER)
    assert temporal(HOLDOUTS) == temporal("packages/split") == [OLDEST, LATER]
