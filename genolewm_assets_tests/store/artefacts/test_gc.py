from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from genolewm_assets.errors import CorruptResourceError, MissingResourceError, VcfError
from genolewm_assets.store.artefacts.build import build
from genolewm_assets.store.artefacts.gc import Reason, collect_garbage
from genolewm_assets.store.artefacts.inputs import open_input
from genolewm_assets.store.artefacts.manifest import read_manifest
from genolewm_assets.store.artefacts.published import ArtefactId, Published
from genolewm_assets.store.artefacts.root import DIGESTS, Root
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets_tests.worlds.store.plans import ARTEFACT, LOCATION, failing_plan, make_plan, picture


@pytest.fixture
def root(root: Root) -> Root:
    root.claim("sample", "a" * 64)
    return root


def build_version(root: Root, version: str) -> Published:
    return build(root, make_plan(code_version=version))


def build_from(root: Root, asset: str, location: str, *inputs: Published) -> Published:
    refs = tuple(published.ref for published in inputs)
    return build(root, make_plan({"f": b"x"}, artefact=ArtefactId(asset), location=location, inputs=refs))


def test_superseded_generations_go_and_a_dry_run_only_says_so(root: Root) -> None:
    old, new = build_version(root, "1"), build_version(root, "2")
    size = sum(path.stat().st_size for path in old.directory.rglob("*") if path.is_file())
    (listed,) = collect_garbage(root, dry_run=True)
    wanted = (f"gnomad/4.1/.gen/{old.directory.name}", size, Reason.SUPERSEDED)
    assert (listed.path, listed.size_bytes, listed.why) == wanted
    assert old.directory.exists()
    assert collect_garbage(root) == [listed]
    assert not old.directory.exists()
    assert open_input(root, ARTEFACT, LOCATION).directory == new.directory
    assert collect_garbage(root) == []
    assert root.leftovers(LOCATION) == []


def test_what_a_package_pins_stays_with_everything_it_was_made_from(root: Root) -> None:
    genome = build_version(root, "1")
    windows = build_from(root, "windows/index", "windows/default/chr21", genome)
    build_from(root, "packages/split", "packages/2026-02-26/0123456789ab", windows)
    loose = build_version(root, "2")
    build_version(root, "3")
    build_from(root, "windows/index", "windows/default/chr21", build_version(root, "3"))
    assert [item.path for item in collect_garbage(root)] == [str(loose.directory.relative_to(root.path))]
    assert read_manifest(genome.directory) == genome.manifest
    assert read_manifest(windows.directory) == windows.manifest


def test_caches_held_by_reference_are_pinned_whatever_the_shape_of_the_manifest(root: Root) -> None:
    old = build_version(root, "1")
    build_version(root, "2")
    package = root.path / "packages" / "2026-02-26" / "0123456789ab"
    package.mkdir(parents=True)
    caches = [{"contig": "chr21", "manifest_sha256": old.manifest.sha256}]
    (package / "manifest.json").write_text(json.dumps({"schema": "another", "recipe": {"caches": caches}}))
    assert collect_garbage(root) == []
    assert old.directory.exists()


def test_old_generations_of_packages_stay(root: Root) -> None:
    first = build_from(root, "packages/split", "packages/2026-02-26/0123456789ab")
    build_from(root, "packages/split", "packages/2026-02-26/0123456789ab", build_version(root, "1"))
    assert collect_garbage(root) == []
    assert first.directory.exists()


@pytest.mark.parametrize("which", ["package", "pinned", "missing package", "missing pinned"])
def test_nothing_goes_while_a_manifest_that_pins_is_unreadable(root: Root, which: str) -> None:
    pinned = build_version(root, "1")
    package = build_from(root, "packages/split", "packages/R/0123456789ab", pinned)
    build_version(root, "2")
    build_version(root, "3")
    victim = {"package": package, "pinned": pinned}[which.removeprefix("missing ")].directory / "manifest.json"
    victim.unlink()
    if not which.startswith("missing"):
        victim.write_bytes(b"{")
    before = picture(root)
    with pytest.raises(CorruptResourceError, match="what it pins is unknown and nothing was removed"):
        collect_garbage(root)
    assert picture(root) == before


def test_abandoned_work_goes_but_never_work_in_progress(root: Root) -> None:
    with root.lock("a/dead"), root.lock("a/alive"):
        dead, alive = root.work_dir("a/dead"), root.work_dir("a/alive")
        (dead / "half").write_bytes(b"12345")
    with root.lock("a/alive"):
        removed = collect_garbage(root)
        found = [(item.path, item.size_bytes, item.why) for item in removed]
        assert found == [(str(dead.relative_to(root.path)), 5, Reason.ABANDONED)]
        assert alive.exists()
    assert not dead.exists()
    collect_garbage(root)
    assert not alive.exists()


def test_generations_stay_while_anything_is_being_built(root: Root) -> None:
    old = build_version(root, "1")
    build_version(root, "2")
    with root.lock("windows/default/chr21"):
        assert collect_garbage(root) == []
    assert old.directory.exists()
    assert len(collect_garbage(root)) == 1


def test_a_generation_linked_between_listing_and_removing_stays(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = build_version(root, "1"), build_version(root, "2")
    while_free = Root.while_free

    def roll_back(self: Root, location: str) -> object:
        link = root.path / LOCATION
        link.unlink()
        link.symlink_to(f".gen/{old.directory.name}")
        return while_free(self, location)

    monkeypatch.setattr(Root, "while_free", roll_back)
    assert collect_garbage(root) == []
    assert old.directory.exists()
    assert new.directory.exists()


def test_markers_of_failed_builds_stay_and_what_they_replaced_goes(root: Root) -> None:
    with pytest.raises(VcfError):
        build(root, failing_plan())
    marker = root.path / "rejected" / LOCATION
    old = marker.parent / ".gen" / "chr21.0123456789ab"
    old.mkdir()
    assert [item.path for item in collect_garbage(root)] == [str(old.relative_to(root.path))]
    assert (marker / "failure.json").exists()


def test_files_of_killed_writers_go_once_they_are_old(root: Root) -> None:
    build_version(root, "1")
    folder, link = root.path / DIGESTS, root.path / "gnomad/4.1/.gen/chr21.link"
    folder.mkdir(parents=True)
    link.symlink_to("nowhere")
    scratch, beside = root.path / ".current.json.0123abcd.tmp", folder / ".b.md5.json.0123abcd.tmp"
    mine, kept, young = root.path / ".env", folder / "a.md5.json", folder / ".a.md5.json.0123abcd.tmp"
    for path in (scratch, beside, mine, kept, young):
        path.write_bytes(b"{}")
    assert collect_garbage(root) == []
    for path in (scratch, link, beside, mine, kept):
        os.utime(path, (0, 0), follow_symlinks=False)
    assert {f.location for f in verify_root(root)} == {str(p.relative_to(root.path)) for p in (scratch, link)}
    assert len(collect_garbage(root)) == 3
    assert [os.path.lexists(path) for path in (scratch, link, beside, mine, kept, young)] == [False] * 3 + [True] * 3


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_folder_that_is_no_root_is_refused(root: Root, tmp_path: Path, dry_run: bool) -> None:
    build_version(root, "1")
    build_version(root, "2")
    (root.path / "root.json").unlink()
    before = picture(root)
    for path in (root.path, tmp_path / "absent", root.path / "gnomad"):
        with pytest.raises(MissingResourceError, match=f"{path}: not a root: expected a folder with root.json"):
            collect_garbage(Root(path), dry_run=dry_run)
    assert picture(root) == before
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize(("days", "kept"), [(1, True), (31, False)])
def test_an_interrupted_build_that_can_be_continued_is_kept_for_a_month(root: Root, days: int, kept: bool) -> None:
    with root.lock(LOCATION) as lease:
        resumable = root.work_dir(LOCATION, lease, name="resume.0123456789ab")
        plain = root.work_dir(LOCATION, lease)
    (resumable / "states.bin").write_bytes(b"states")
    stamp = time.time() - days * 24 * 3600
    for path in (resumable / "states.bin", resumable):
        os.utime(path, (stamp, stamp))
    removed = {entry.path for entry in collect_garbage(root)}
    assert (str(resumable.relative_to(root.path)) in removed) is not kept
    assert resumable.exists() is kept
    assert not plain.exists()
    assert root.leftovers(LOCATION) == ([resumable] if kept else [])
