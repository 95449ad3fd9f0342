from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from genolewm_assets.errors import (
    BusyError,
    CorruptResourceError,
    MissingResourceError,
    RejectedResourceError,
    VcfError,
)
from genolewm_assets.store.artefacts.build import build
from genolewm_assets.store.artefacts.inputs import open_input
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.work import leftovers, sweep, work_directory
from genolewm_assets.store.files.atomic import remove_tree
from genolewm_assets.store.files.generations import publish_generation
from genolewm_assets.store.locks import record as lock_record
from genolewm_assets.store.locks.lease import WriterLease
from genolewm_assets.store.locks.record import RECORD, LeaseOwner
from genolewm_assets_tests.heard import Heard
from genolewm_assets_tests.worlds.store.leases import foreign_owner, silence, write_record
from genolewm_assets_tests.worlds.store.plans import ARTEFACT, CONTENT, LOCATION, failing_plan, flip, make_plan


def test_an_intact_input_opens_and_keeps_its_generation(root: Root) -> None:
    first = build(root, make_plan())
    opened = open_input(root, ARTEFACT, LOCATION)
    assert (opened.directory, opened.manifest, opened.ref) == (first.directory, first.manifest, first.ref)
    build(root, make_plan({"variants.bin": b"new"}, code_version="2"))
    assert opened.file("variants.bin").read_bytes() == CONTENT["variants.bin"]
    assert open_input(root, ARTEFACT, LOCATION).file("variants.bin").read_bytes() == b"new"


@pytest.mark.parametrize("ever_succeeded", [True, False])
def test_an_input_whose_latest_build_failed_is_refused_with_the_reason(root: Root, *, ever_succeeded: bool) -> None:
    if ever_succeeded:
        build(root, make_plan())
    with pytest.raises(VcfError):
        build(root, failing_plan())
    with pytest.raises(RejectedResourceError, match=r"latest build failed: in\.vcf:3: is malformed"):
        open_input(root, ARTEFACT, LOCATION)
    with pytest.raises(RejectedResourceError):
        build(root, make_plan(code_version="3", passed=False))
    with pytest.raises(RejectedResourceError, match=r"failed checks \['content_is_right'\]"):
        open_input(root, ARTEFACT, LOCATION)


def test_a_manifest_with_a_failed_check_is_refused_even_if_published(root: Root, tmp_path: Path) -> None:
    with pytest.raises(RejectedResourceError):
        build(root, make_plan(passed=False))
    rejected = root.path / "rejected" / LOCATION
    digest = rejected.readlink().name[-12:]
    publish_generation(rejected.resolve(), root.link_of(LOCATION), digest)
    rejected.unlink()
    with pytest.raises(RejectedResourceError, match="published with failed checks"):
        open_input(root, ARTEFACT, LOCATION)


@pytest.mark.parametrize(
    "wanted", [ArtefactId("gnomad/shard", "chr20"), ArtefactId("gnomad/shard"), ArtefactId("x", "chr21")]
)
def test_another_artefact_at_the_location_is_refused(root: Root, wanted: ArtefactId) -> None:
    build(root, make_plan())
    with pytest.raises(CorruptResourceError, match=r"another artefact .*got gnomad/shard\[chr21\]"):
        open_input(root, wanted, LOCATION)


def _replace(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    def change(directory: Path) -> None:
        remove_tree(directory / name)
        make(directory / name)

    return change


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "flipped byte": (lambda d: flip(d / "variants.bin", 5000), r"variants\.bin\): content differs: expected sha256"),
    "truncated": (lambda d: os.truncate(d / "variants.bin", 10239), "expected 10240 bytes, got 10239 bytes"),
    "grown": (lambda d: os.truncate(d / "variants.bin", 10241), "got 10241 bytes"),
    "missing": (lambda d: remove_tree(d / "rejects.bin"), r"rejects\.bin\): file is missing"),
    "extra": (lambda d: (d / "more.bin").write_bytes(b""), r"more\.bin\): is not listed"),
    "extra link": (lambda d: (d / "more").symlink_to("/etc"), r"more\): is not listed"),
    "extra deep": (lambda d: (d / "sub" / "more").write_bytes(b""), r"sub/more\): is not listed"),
    "file to symlink": (_replace("rejects.bin", lambda p: p.symlink_to("variants.bin")), "through the symlink"),
    "folder to symlink": (_replace("sub", lambda p: p.symlink_to("/etc")), "through the symlink 'sub'"),
    "file to folder": (_replace("rejects.bin", lambda p: p.mkdir()), r"rejects\.bin\): is not a regular file"),
    "file to pipe": (_replace("rejects.bin", os.mkfifo), r"rejects\.bin\): is not a regular file"),
    "folder to file": (_replace("sub", lambda p: p.write_bytes(b"")), r"sub/extra\.bin\): file is missing"),
    "manifest flipped": (lambda d: flip(d / "manifest.json", 40), "Rebuild gnomad"),
    "manifest missing": (lambda d: remove_tree(d / "manifest.json"), "manifest is missing"),
    "manifest of another": (lambda d: _retouch(d / "manifest.json"), "digest of the manifest differs"),
    "directory gone": (remove_tree, "is gone"),
}  # fmt: skip


def _retouch(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"code_version": "1"', b'"code_version": "9"'))


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_found_and_the_remedy_is_to_build(root: Root, damage: Callable[[Path], object], message: str) -> None:
    damage(build(root, make_plan()).directory)
    with pytest.raises((CorruptResourceError, MissingResourceError), match=message) as raised:
        open_input(root, ARTEFACT, LOCATION)
    assert str(raised.value).endswith("Rebuild gnomad/shard[chr21].")
    assert not build(root, make_plan()).reused
    assert open_input(root, ARTEFACT, LOCATION).file("sub/extra.bin").read_bytes() == b"e"


def test_an_unreadable_provenance_changes_nothing(root: Root) -> None:
    directory = build(root, make_plan()).directory
    (directory / "provenance.json").write_bytes(b"\xff")
    open_input(root, ARTEFACT, LOCATION)
    (directory / "provenance.json").unlink()
    open_input(root, ARTEFACT, LOCATION)


def test_progress_reaches_the_total(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Heard()
    monkeypatch.setenv("GENOLEWM_HASHED", "all")
    build(root, make_plan({"big.bin": b"x" * (2 << 20)}))
    open_input(root, ARTEFACT, LOCATION, progress=seen)
    assert [told[:2] for told in seen] == [(1 << 20, 2 << 20), (2 << 20, 2 << 20)]


NAME = "resume.0123456789ab"
DAY_S = 24 * 3600
HERE = LeaseOwner.of_this_process()


def lease_of(folder: Path) -> WriterLease:
    return WriterLease(folder, "here").acquire(0)


def work_of(folder: Path, owner: LeaseOwner, name: str = NAME) -> Path:
    """Leave a work directory of an owner, with a file in it."""
    path = folder / f"{name}.{owner.mark}"
    path.mkdir()
    (path / "rows").write_bytes(owner.token.encode())
    return path


def continued(folder: Path) -> str | None:
    """Token of the owner whose work directory the next builder goes on with; None if it begins anew."""
    with lease_of(folder) as lease:
        sweep(folder, lease, keep=NAME)
        rows = work_directory(folder, lease, NAME) / "rows"
        return rows.read_text() if rows.exists() else None


CERTAINLY_DEAD: dict[str, tuple[LeaseOwner, float]] = {
    "process gone": (replace(HERE, started_ticks=1), 0),
    "machine started anew": (foreign_owner(host=HERE.host), 61),
}


@pytest.mark.parametrize(("owner", "silent_s"), CERTAINLY_DEAD.values(), ids=CERTAINLY_DEAD)
def test_what_a_dead_builder_left_is_continued(folder: Path, owner: LeaseOwner, silent_s: float) -> None:
    work_of(folder, owner)
    write_record(folder, owner, silent_s=silent_s)
    assert continued(folder) == owner.token
    assert continued(folder) == owner.token, "and again, when the next one gave up"


def test_what_may_be_worked_on_is_neither_continued_nor_swept_until_it_is_silent_for_a_day(folder: Path) -> None:
    owner = foreign_owner()
    works = [work_of(folder, owner), work_of(folder, owner, "build.01234567")]
    record = write_record(folder, owner, silent_s=61)
    assert leftovers(folder) == [], "nor while nobody has taken its lock yet"
    assert continued(folder) is None
    displaced = folder / f"displaced.{owner.mark}.json"
    assert not record.exists()
    with lease_of(folder) as lease:
        sweep(folder, lease)
        assert [path.exists() for path in (*works, displaced)] == [True] * 3
        assert len(leftovers(folder)) == 0
        silence(displaced, DAY_S + 60)
        assert leftovers(folder) == sorted([*works, displaced])
        sweep(folder, lease)
        assert leftovers(folder) == []


def test_one_that_lost_its_lock_and_is_known_to_be_dead_protects_nothing(folder: Path) -> None:
    owner = replace(HERE, started_ticks=1)
    work_of(folder, owner)
    (folder / f"displaced.{owner.mark}.json").write_bytes(owner.to_bytes())
    assert continued(folder) == owner.token


def test_one_that_lost_its_lock_and_lives_here_is_protected(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_record, "HELD", {HERE.token})
    work_of(folder, HERE)
    (folder / f"displaced.{HERE.mark}.json").write_bytes(HERE.to_bytes())
    assert continued(folder) is None


def test_of_an_unknown_owner_every_work_directory_may_be(folder: Path) -> None:
    work = work_of(folder, foreign_owner())
    write_record(folder, b"?", silent_s=61)
    assert continued(folder) is None
    assert work.exists()


def test_of_several_the_latest_is_continued_and_the_others_go(folder: Path) -> None:
    owners = [replace(HERE, token=digit * 32) for digit in "abc"]
    for owner, age_s in zip(owners, (300, 100, 200), strict=True):
        silence(work_of(folder, owner), age_s)
    assert continued(folder) == "b" * 32
    with lease_of(folder) as lease:
        sweep(folder, lease)
    assert leftovers(folder) == []


IMPOSTORS: dict[str, Callable[[Path, Path], object]] = {
    "link": lambda path, elsewhere: path.symlink_to(elsewhere),
    "file": lambda path, _: path.touch(),
    "other name": lambda path, _: path.with_name(f"resume.ffffffffffff.{HERE.mark}").mkdir(),
    "longer name": lambda path, _: path.with_name(f"{NAME}.x.{HERE.mark}").mkdir(),
}


@pytest.mark.parametrize("what", IMPOSTORS)
def test_what_is_no_work_directory_of_the_name_is_not_continued(folder: Path, tmp_path: Path, what: str) -> None:
    (tmp_path / "rows").write_text("stranger")
    IMPOSTORS[what](folder / f"{NAME}.{HERE.mark}", tmp_path)
    assert continued(folder) is None
    assert (tmp_path / "rows").exists()


def test_who_lost_the_lock_neither_sweeps_nor_takes_what_the_next_one_works_on(folder: Path) -> None:
    lease, taker = lease_of(folder), foreign_owner()
    write_record(folder, taker)
    works = [work_of(folder, taker), work_of(folder, taker, "build.01234567")]
    for act in (lambda: sweep(folder, lease), lambda: work_directory(folder, lease, NAME)):
        with pytest.raises(BusyError, match="lost the lock"):
            act()
    assert [path.exists() for path in works] == [True] * 2
    lease.release()
    assert (folder / RECORD).exists()


def test_records_that_were_being_written_are_leftovers(folder: Path) -> None:
    (folder / f".{RECORD}.01234567.tmp").touch()
    with lease_of(folder) as lease:
        sweep(folder, lease)
    assert [path.name for path in folder.iterdir()] == ["lock"]
