from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from genolewm_assets.errors import CorruptResourceError, VcfError
from genolewm_assets.progress import NO_PROGRESS, ByteCount
from genolewm_assets.store.artefacts.build import BuildRejectedError, build
from genolewm_assets.store.artefacts.inventory import generations, links, plain_directories
from genolewm_assets.store.artefacts.location import LockedLocation, locked_location
from genolewm_assets.store.artefacts.published import (
    ArtefactId,
    find_damage,
    has_listed_sizes,
    write_provenance,
)
from genolewm_assets.store.artefacts.rejected import clear_rejected, rejection_reason
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.files.digests import FileDigests, measure_file
from genolewm_assets.store.files.generations import is_linked, link_of_generation
from genolewm_assets_tests.worlds.store.plans import CONTENT, LOCATION, failing_plan, flip, make_plan


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_size_and_digest_come_from_one_reading(tmp_path: Path, size: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    (tmp_path / "f").write_bytes(data[:size])
    measured = measure_file(tmp_path / "f", ByteCount(NO_PROGRESS, 0))
    assert measured[:2] == (size, hashlib.sha256(data[:size]).hexdigest())


def test_measuring_does_not_follow_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(OSError, match="symbolic link"):
        measure_file(tmp_path / "link", ByteCount(NO_PROGRESS, 0))


def test_all_damages_are_found_not_only_the_first(root: Root) -> None:
    published = build(root, make_plan())
    for name in CONTENT:
        flip(published.file(name), 0)
    directory, count = published.directory, ByteCount(NO_PROGRESS, 0)
    damages = find_damage(directory, published.manifest, count, FileDigests(directory))
    assert [damage.file for damage in damages] == sorted(CONTENT)


def test_a_directory_under_another_name_is_not_the_generation(root: Root) -> None:
    published = build(root, make_plan())
    moved = published.directory.rename(published.directory.with_name("chr21.0123456789ab"))
    (damage,) = find_damage(moved, published.manifest, ByteCount(NO_PROGRESS, 0), FileDigests(moved))
    wanted = ("manifest.json", "0123456789ab", published.manifest.sha256[:12])
    assert (damage.file, damage.expected, damage.got) == wanted
    assert not has_listed_sizes(moved, published.manifest)


def test_the_reason_is_told_as_far_as_it_is_known_and_cleared_of_one_location_only(root: Root) -> None:
    with pytest.raises(VcfError):
        build(root, failing_plan())
    assert rejection_reason(root, LOCATION) == "in.vcf:3: is malformed. Correct it."
    (root.path / "rejected" / LOCATION / "failure.json").write_bytes(b"{")
    assert rejection_reason(root, LOCATION) == f"see {root.path}/rejected/{LOCATION}"
    other = LOCATION.replace("chr21", "chr21.x")
    for location in (LOCATION, other):
        with pytest.raises(BuildRejectedError):
            build(root, make_plan(passed=False, location=location))
    clear_rejected(root, LOCATION)
    clear_rejected(root, LOCATION)
    assert not root.is_rejected(LOCATION)
    failed = "failed checks ['content_is_right'] (content_is_right: bad [1, 2], share 0.25)"
    assert rejection_reason(root, other) == failed


NAME, DIGEST = "a/b", "0123456789ab"
RESUMED = f"resume.{DIGEST}"


def publish(site: LockedLocation) -> Path:
    work = site.work_dir()
    (work / "f").write_text("whole")
    return site.publish(work, DIGEST)


def test_what_cannot_be_healed_is_not_gone_on_with(root: Root) -> None:
    with locked_location(root, NAME, resumed=RESUMED) as site:
        generation = publish(site)
        (generation / "f").write_text("damaged")
        assert publish(site) == generation
        assert (site.link / "f").read_text() == "whole"
        root.link_of(NAME).unlink()
        root.link_of(NAME).touch()
        with pytest.raises(CorruptResourceError, match="in the place of the published link"):
            publish(site)
    assert root.leftovers(NAME) == []
    with pytest.raises(CorruptResourceError), locked_location(root, NAME, resumed=RESUMED):
        pass


def test_links_and_generations_are_found_at_any_depth_and_nothing_of_the_store_s_own(root: Root) -> None:
    (root.path / "dagster" / ".gen" / "x.0123456789ab").mkdir(parents=True)
    (root.path / "dagster" / "link").symlink_to("/")
    old = build(root, make_plan(location="a"))
    new = build(root, make_plan(location="a", code_version="2"))
    deep = build(root, make_plan(location="b/c/d", artefact=ArtefactId("x"), surface=True))
    assert list(generations(root.path)) == [*sorted([old.directory, new.directory]), deep.directory]
    names = ["d", "manifest.json", "provenance.json", "rejects.bin", "sub", "variants.bin"]
    assert list(links(root.path)) == [root.path / "a", *(root.path / "b" / "c" / name for name in names)]
    assert [is_linked(p.directory) for p in (old, new, deep)] == [False, True, True]
    assert link_of_generation(old.directory) == root.path / "a"
    assert list(plain_directories(root.path)) == []


def test_a_folder_that_does_not_exist_holds_nothing(root: Root) -> None:
    assert list(links(root.path)) == []
    assert list(generations(root.path)) == []


def test_what_differs_between_two_runs_is_recorded(tmp_path: Path) -> None:
    write_provenance(tmp_path, run_id=None, duration_s=1.23456)
    record = json.loads((tmp_path / "provenance.json").read_bytes())
    assert (record["duration_s"], record["run_id"]) == (1.235, None)
    age = datetime.now(UTC) - datetime.fromisoformat(record["built_at"])
    assert 0 <= age.total_seconds() < 60
    assert set(record) == {"built_at", "duration_s", "host", "platform", "python", "run_id", "version"}
