"""``clinvar/release``: a key leads to the bytes that it was registered for, or to nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import dagster as dg
import pytest

from genolewm_assets.defs.assets.clinvar import clinvar_release
from genolewm_assets.errors import MissingResourceError
from genolewm_assets.progress import NO_PROGRESS
from genolewm_assets.sources.clinvar.listing import read_listing
from genolewm_assets.sources.clinvar.releases import LEDGER, RegisteredRelease, read_ledger, register_releases
from genolewm_assets.store.artefacts.gc import collect_garbage
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets_tests.servers.web_server import WebServer
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES, TinyWorld, failed_checks
from genolewm_assets_tests.worlds.sources.release_files import directory_page

OLD, NEW = RELEASES
RELEASE = "clinvar/release"


def vcf(world: TinyWorld, release: str) -> Path:
    return world.folder / "clinvar" / f"clinvar_{release.replace('-', '')}.vcf.gz"


def replace_file(world: TinyWorld, release: str) -> None:
    """Put other bytes of the same content under the name of a release: one more empty BGZF block."""
    content = vcf(world, release).read_bytes()
    vcf(world, release).write_bytes(content + content[-28:])
    world.publish_md5(vcf(world, release))


def register(world: TinyWorld) -> tuple[RegisteredRelease, ...]:
    return register_releases(world.root, read_listing(str(world.folder / "clinvar")))


def refusal(result: dg.ExecuteInProcessResult) -> str:
    assert failed_checks(result) == {"inputs_accepted"}
    (check,) = (check for check in result.get_asset_check_evaluations() if check.check_name == "inputs_accepted")
    return str(check.metadata["error"].value)


def test_a_replaced_release_keeps_what_was_published_and_names_the_new_key(world: TinyWorld) -> None:
    assert world.materialize(RELEASE, partition=NEW).success
    before = world.open(RELEASE, NEW).manifest.sha256
    replace_file(world, NEW)
    assert f"Materialise '{NEW}.2'" in refusal(world.materialize(RELEASE, partition=NEW))
    assert world.open(RELEASE, NEW).manifest.sha256 == before
    world.instance.add_dynamic_partitions("clinvar_release", [f"{NEW}.2"])
    assert world.materialize(RELEASE, partition=f"{NEW}.2").success
    assert world.open(RELEASE, f"{NEW}.2").manifest.sha256 != before


def test_a_key_that_nobody_registered_is_refused(world: TinyWorld) -> None:
    world.instance.add_dynamic_partitions("clinvar_release", ["2099-01-01"])
    assert "no such ClinVar release" in refusal(world.materialize(RELEASE, partition="2099-01-01"))


def test_bytes_replaced_between_plan_and_download_are_not_taken(world: TinyWorld, tmp_path: Path) -> None:
    plan = clinvar_release.build_plan(world.workspace(), NEW, NO_PROGRESS)
    replace_file(world, NEW)
    assert [check.name for check in plan.write(tmp_path).checks if not check.passed] == ["checksum_matches_published"]


def test_neither_are_they_where_no_checksum_is_published(world: TinyWorld, tmp_path: Path) -> None:
    for checksum in (world.folder / "clinvar").glob("*.md5"):
        checksum.unlink()
    plan = clinvar_release.build_plan(world.workspace(), NEW, NO_PROGRESS)
    assert all(check.passed for check in plan.write(tmp_path).checks)
    os.utime(vcf(world, NEW), (1, 1))
    with pytest.raises(MissingResourceError, match="is no longer offered"):
        plan.write(tmp_path)


@pytest.mark.parametrize("lost", ["record", "entries"])
def test_keys_of_a_lost_record_stay_with_what_was_published(world: TinyWorld, lost: str) -> None:
    known = register(world)
    assert world.materialize(RELEASE, partition=NEW).success
    if lost == "record":
        (world.root / LEDGER).unlink()
    else:
        document = json.loads((world.root / LEDGER).read_bytes())
        (world.root / LEDGER).write_text(json.dumps({**document, "releases": document["releases"][:1]}))
    assert read_ledger(world.root)[-1] == known[-1]
    assert register(world) == known
    (world.root / LEDGER).unlink()
    replace_file(world, NEW)
    assert [release.key for release in register(world)] == [OLD, NEW, f"{NEW}.2"]


def test_a_lost_record_of_a_place_without_checksums(world: TinyWorld, site: WebServer) -> None:
    name = vcf(world, NEW).name
    site.files = {"data/": directory_page([name]), f"data/{name}": vcf(world, NEW).read_bytes()}
    world.catalog.write_text(world.catalog.read_text().replace("listing: clinvar", f"listing: {site.url('data')}"))
    assert world.materialize(RELEASE, partition=NEW).success
    known = read_ledger(world.root)
    assert known == (RegisteredRelease(NEW, name, f'{vcf(world, NEW).stat().st_size} bytes, "v1"'),)
    (world.root / LEDGER).unlink()
    assert read_ledger(world.root) == known


def test_verification_and_garbage_collection_know_the_record(world: TinyWorld) -> None:
    world.materialize(RELEASE, partition=NEW)
    ledger = (world.root / LEDGER).read_bytes()
    assert verify_root(Root(world.root)) == []
    assert collect_garbage(Root(world.root)) == []
    assert (world.root / LEDGER).read_bytes() == ledger
