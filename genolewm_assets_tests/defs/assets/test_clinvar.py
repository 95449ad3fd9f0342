"""``clinvar/release``: a key leads to the bytes that it was registered for, or to nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

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
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES, TinyWorld, refusal_of
from genolewm_assets_tests.worlds.sources.release_files import directory_page

OLD, NEW = RELEASES
RELEASE = "clinvar/release"


def replace_file(world: TinyWorld, release: str) -> None:
    """Put other bytes of the same content under the name of a release: one more empty BGZF block."""
    path = world.vcf(release)
    path.write_bytes(path.read_bytes() + path.read_bytes()[-28:])
    world.publish_md5(path)


def register(world: TinyWorld) -> tuple[RegisteredRelease, ...]:
    return register_releases(world.root, read_listing(str(world.folder / "clinvar")))


def test_a_replaced_release_keeps_what_was_published_and_a_key_of_no_file_is_refused(world: TinyWorld) -> None:
    world.make(RELEASE, NEW)
    before = world.open(RELEASE, NEW).manifest.sha256
    replace_file(world, NEW)
    assert f"Materialise '{NEW}.2'" in refusal_of(world.materialize(RELEASE, partition=NEW))
    assert world.open(RELEASE, NEW).manifest.sha256 == before
    world.instance.add_dynamic_partitions("clinvar_release", [f"{NEW}.2"])
    world.make(RELEASE, f"{NEW}.2")
    assert world.open(RELEASE, f"{NEW}.2").manifest.sha256 != before
    world.instance.add_dynamic_partitions("clinvar_release", ["2099-01-01"])
    assert "no such ClinVar release" in refusal_of(world.materialize(RELEASE, partition="2099-01-01"))


def test_bytes_replaced_between_plan_and_download_are_not_taken(world: TinyWorld, tmp_path: Path) -> None:
    plan = clinvar_release.build_plan(world.workspace(), NEW, NO_PROGRESS)
    replace_file(world, NEW)
    assert [check.name for check in plan.write(tmp_path).checks if not check.passed] == ["checksum_matches_published"]


def test_neither_are_they_where_no_checksum_is_published(world: TinyWorld, tmp_path: Path) -> None:
    for checksum in (world.folder / "clinvar").glob("*.md5"):
        checksum.unlink()
    plan = clinvar_release.build_plan(world.workspace(), NEW, NO_PROGRESS)
    assert all(check.passed for check in plan.write(tmp_path).checks)
    os.utime(world.vcf(NEW), (1, 1))
    with pytest.raises(MissingResourceError, match="is no longer offered"):
        plan.write(tmp_path)


@pytest.mark.parametrize("lost", ["record", "entries"])
def test_keys_of_a_lost_record_stay_with_what_was_published(world: TinyWorld, lost: str) -> None:
    known = register(world)
    world.make(RELEASE, NEW)
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
    name = world.vcf(NEW).name
    site.files = {"data/": directory_page([name]), f"data/{name}": world.vcf(NEW).read_bytes()}
    world.edit_catalog(clinvar={"listing": site.url("data")})
    world.make(RELEASE, NEW)
    known = read_ledger(world.root)
    assert known == (RegisteredRelease(NEW, name, f'{world.vcf(NEW).stat().st_size} bytes, "v1"'),)
    (world.root / LEDGER).unlink()
    assert read_ledger(world.root) == known


def test_verification_and_garbage_collection_know_the_record(world: TinyWorld) -> None:
    world.materialize(RELEASE, partition=NEW)
    ledger = (world.root / LEDGER).read_bytes()
    assert verify_root(Root(world.root)) == collect_garbage(Root(world.root)) == []
    assert (world.root / LEDGER).read_bytes() == ledger
