"""``newest_release_built``: told by the dates of releases and the listing, never by the time of a build."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, timedelta

import dagster as dg
import pytest

from genolewm_assets.defs.assets.graph import PUBLISHING
from genolewm_assets.defs.runtime import release_age
from genolewm_assets.defs.runtime.release_age import (
    NEWEST_RELEASE_BUILT,
    ReleaseAge,
    Releases,
    judge_age,
    offered_by_listing,
    recorded_releases,
)
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES, check_of

FIRST, SECOND = RELEASES
#: The newest release is four days old.
TODAY = date.fromisoformat(SECOND) + timedelta(days=4)
NEXT = "2025-02-04"
OF_PACKAGES = {"holdouts/manifest", "packages/split", "packages/audit", "packages/current"}
FOLLOWING_CLINVAR = {"clinvar/release", "clinvar/shard", "clinvar/changes", "mito/variants", *OF_PACKAGES}


@pytest.fixture
def world(copied: BuiltWorld) -> BuiltWorld:
    copied.edit_catalog(clinvar={"freshness": {}})
    return copied


def judged(world: BuiltWorld, today: date = TODAY, releases: Releases | None = None) -> Mapping[str, ReleaseAge]:
    workspace = world.workspace()
    known = releases or offered_by_listing(workspace)
    following = (asset for asset in PUBLISHING.values() if asset.follows_releases)
    return {asset.key: judge_age(workspace, asset, known, today=today) for asset in following}


def late(world: BuiltWorld, today: date = TODAY) -> set[str]:
    return {key for key, age in judged(world, today).items() if not age.passed}


def run_check(world: BuiltWorld, monkeypatch: pytest.MonkeyPatch, today: date) -> dict[str, dg.AssetCheckEvaluation]:
    """Run the job on a day, and return what it says of the age of each asset."""

    class Day(release_age.datetime):  # type: ignore[misc]
        @classmethod
        def now(cls, tz: object = None) -> release_age.datetime:
            return release_age.datetime.combine(today, release_age.datetime.min.time())

    with monkeypatch.context() as patch:
        patch.setattr(release_age, "datetime", Day)
        result = world.run_job("check_current")
    assert result.success
    return {
        each.asset_key.to_user_string(): each
        for each in result.get_asset_check_evaluations()
        if each.check_name == NEWEST_RELEASE_BUILT
    }


def test_an_older_listing_makes_late_what_follows_clinvar(world: BuiltWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    before = run_check(world, monkeypatch, TODAY)
    assert set(before) == FOLLOWING_CLINVAR
    assert all(each.passed for each in before.values())
    # Time passes, and the listing offers nothing new.
    older = run_check(world, monkeypatch, TODAY + timedelta(days=32))
    assert {key for key, each in older.items() if not each.passed} == FOLLOWING_CLINVAR
    assert {each.severity for each in older.values()} == {dg.AssetCheckSeverity.WARN}
    assert "is 36 days old: expected at most 35 (warn_days)" in older["clinvar/shard"].metadata["reason"].value
    oldest = run_check(world, monkeypatch, TODAY + timedelta(days=42))
    assert {each.severity for each in oldest.values()} == {dg.AssetCheckSeverity.ERROR}
    assert "is 46 days old: expected at most 45 (fail_days)" in oldest["packages/split"].metadata["reason"].value


@pytest.mark.nightly
def test_a_newer_release_makes_late_what_does_not_have_it(world: BuiltWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write_clinvar(NEXT, header_date=NEXT)
    found = run_check(world, monkeypatch, date.fromisoformat(NEXT))
    assert {key for key, each in found.items() if not each.passed} == FOLLOWING_CLINVAR
    stated = found["clinvar/release"].metadata
    assert stated["reason"].value == f"the newest built release, {SECOND}, is not the newest one offered, {NEXT}"
    assert (stated["newest_offered"].value, stated["newest_built"].value) == (NEXT, SECOND)
    # Asset by asset, it is built.
    world.instance.add_dynamic_partitions("clinvar_release", [NEXT])
    remaining = set(FOLLOWING_CLINVAR)
    for key in ("clinvar/release", "clinvar/shard", "clinvar/changes", "mito/variants"):
        assert world.materialize(key, partition=NEXT).success
        remaining -= {key}
        assert late(world, date.fromisoformat(NEXT)) == remaining


@pytest.mark.nightly
def test_building_an_old_release_again_makes_nothing_newer(world: BuiltWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write_clinvar(NEXT, header_date=NEXT)
    later = TODAY + timedelta(days=200)
    assert late(world, later) == FOLLOWING_CLINVAR
    assert world.run_job("refresh_release", partition_key=FIRST).success
    own = check_of(world.materialize("packages/current"), NEWEST_RELEASE_BUILT)
    assert (own.passed, own.partition) == (False, None)
    assert late(world, later) == FOLLOWING_CLINVAR
    assert not any(each.passed for each in run_check(world, monkeypatch, later).values())


@pytest.mark.nightly
def test_a_build_keeps_what_the_daily_check_read(world: BuiltWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """No age is judged: only the listing tells that there is a newer release."""
    world.edit_catalog(clinvar={"freshness": "off"})
    world.write_clinvar(NEXT, header_date=NEXT)
    assert not any(each.passed for each in run_check(world, monkeypatch, TODAY).values())
    for key, partition in (("clinvar/shard", FIRST), ("clinvar/shard", SECOND), ("packages/current", None)):
        own = check_of(world.materialize(key, partition=partition), NEWEST_RELEASE_BUILT)
        assert (own.passed, own.metadata["newest_offered"].value) == (False, NEXT)
    world.instance.add_dynamic_partitions("clinvar_release", [NEXT])
    world.make("clinvar/release", NEXT)
    assert check_of(world.materialize("clinvar/shard", partition=NEXT), NEWEST_RELEASE_BUILT).passed


def test_a_run_says_it_of_the_asset_from_the_record(world: BuiltWorld) -> None:
    world.edit_catalog(clinvar={"freshness": "off"})
    own = check_of(world.materialize("clinvar/shard", partition=FIRST), NEWEST_RELEASE_BUILT)
    assert (own.passed, own.partition) == (True, None)
    assert own.metadata["newest_built"].value == SECOND
    assert own.metadata["offered_according_to"].value == "clinvar/releases.json"


def test_the_package_in_use_is_what_counts_for_the_pointer(world: BuiltWorld) -> None:
    world.run_job("check_current")
    pointer = world.root / "packages/current.json"
    pointer.write_text(json.dumps({**json.loads(pointer.read_bytes()), "pin": FIRST}))
    world.make("packages/current")
    assert late(world) == {"packages/current"}
    current = judged(world)["packages/current"]
    assert current.newest_built == FIRST
    said = f"the release of the package in use, {FIRST} (pinned), is not the newest one offered, {SECOND}"
    assert current.reason.startswith(said)


@pytest.mark.parametrize("packaged", [[FIRST], [FIRST, NEXT]], ids=str)
def test_packages_are_expected_of_packaged_releases(world: BuiltWorld, packaged: list[str]) -> None:
    world.write_clinvar(NEXT, header_date=NEXT)
    world.edit_catalog(clinvar={"freshness": "off", "packaged": packaged})
    assert late(world) == FOLLOWING_CLINVAR - (set() if NEXT in packaged else OF_PACKAGES)


@pytest.mark.parametrize("packaged", [[], ["2019-01-01"]], ids=["none", "one that is gone"])
def test_where_no_offered_release_is_packaged_only_the_age_is_judged(world: BuiltWorld, packaged: list[str]) -> None:
    world.edit_catalog(clinvar={"packaged": packaged})
    found = judged(world)
    for key in OF_PACKAGES:
        reason = "the catalogue packages none of the releases offered"
        assert (found[key].passed, found[key].reason) == (True, reason)
    assert late(world, TODAY + timedelta(days=32)) == FOLLOWING_CLINVAR
    (world.root / "clinvar/releases.json").unlink(missing_ok=True)
    empty = judged(world, releases=Releases((), "the listing"))
    assert not any(age.passed for age in empty.values())
    assert {age.reason for age in empty.values()} == {"not compared: the listing has no release"}


def test_releases_that_the_catalogue_does_not_use_are_not_expected(world: BuiltWorld) -> None:
    world.write_clinvar(NEXT, header_date=NEXT)
    world.edit_catalog(clinvar={"releases": list(RELEASES)})
    assert late(world) == set()


@pytest.mark.parametrize("off", ["off", False], ids=["text", "what YAML makes of off"])
def test_the_age_of_fixed_releases_is_not_judged(world: BuiltWorld, off: object) -> None:
    world.edit_catalog(clinvar={"freshness": off})
    assert late(world, TODAY + timedelta(days=4_000)) == set()
    world.write_clinvar(NEXT, header_date=NEXT)
    assert late(world) == FOLLOWING_CLINVAR, "the newest one still has to be built"


def test_a_listing_that_cannot_be_read_is_not_compared(world: BuiltWorld) -> None:
    (world.folder / "clinvar").rename(world.folder / "away")
    ages = judged(world)
    assert not any(age.passed for age in ages.values())
    assert all(age.reason.startswith("not compared: ") for age in ages.values())
    assert {age.newest_built for age in ages.values()} == {SECOND}


def test_a_file_with_other_bytes_is_a_newer_release(world: BuiltWorld) -> None:
    world.write_clinvar(SECOND, header_date=SECOND, records=world.clinvar_records()[:-1])
    before = (world.root / "clinvar/releases.json").read_bytes()
    assert judged(world)["clinvar/release"].newest_offered == f"{SECOND}.2"
    assert (world.root / "clinvar/releases.json").read_bytes() == before, "looking registers nothing"
    assert recorded_releases(world.workspace()).keys == RELEASES
