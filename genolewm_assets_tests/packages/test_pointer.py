"""The pointer to the package in use: the newest that verifies, the pin, and what never moves it."""

from __future__ import annotations

import errno
import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from genolewm_assets.errors import CorruptResourceError, MissingResourceError, RejectedResourceError, ResourceError
from genolewm_assets.packages import pointer as module
from genolewm_assets.packages import references
from genolewm_assets.packages.pointer import (
    REPORTS,
    Move,
    choose_current,
    current_folder,
    find_current,
    mark_reported,
    move_current,
    not_in_use,
    open_current,
    pin_release,
    read_current,
    read_move,
    read_pin,
    read_pointer,
)
from genolewm_assets.packages.reader import open_package, verify_package
from genolewm_assets.packages.references import PackageRef, read_latest, released, write_latest
from genolewm_assets.store.artefacts.published import Published
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.files import digests
from genolewm_assets_tests.command_line import Command
from genolewm_assets_tests.heard import Heard
from genolewm_assets_tests.worlds.lewm.recorded_audits import record_audit
from genolewm_assets_tests.worlds.store.damages import DAMAGES, read_table

OLD, NEW = "2024-01-07", "2025-01-05"


@pytest.fixture
def root(package_root: Root, package: Published, tmp_path: Path) -> Path:
    """Return a root of its own with the same package recorded for two releases."""
    copy = tmp_path / "root"
    shutil.copytree(package_root.path, copy, symlinks=True)
    link = next(path for path in sorted((copy / "packages").rglob("*")) if path.is_symlink())
    for release in (OLD, NEW):
        write_latest(copy, PackageRef(release, str(link.relative_to(copy)), package.manifest.sha256))
        record_audit(copy, release, package.manifest.sha256)
    return copy


def damage(root: Path, release: str) -> None:
    """Record for one release a package, audited, that is not the one that lies there."""
    write_latest(root, PackageRef(release, read_latest(root, release).path, "0" * 64))
    record_audit(root, release, "0" * 64)


def test_the_tenth_file_of_a_day_is_newer_than_the_ninth(root: Path) -> None:
    ref = read_latest(root, NEW)
    for number in (10, 9):
        write_latest(root, replace(ref, release=f"{NEW}.{number}"))
        record_audit(root, f"{NEW}.{number}", ref.manifest_sha256)
    assert released(root) == [f"{NEW}.10", f"{NEW}.9", NEW, OLD]
    assert move_current(root).release == read_current(root).release == f"{NEW}.10"


def test_a_bad_release_is_passed_over(root: Path) -> None:
    damage(root, NEW)
    assert move_current(root).release == OLD
    (root / "packages" / OLD / "latest.json").write_text("{")
    assert move_current(root).release == OLD, "what is in use and good stays"
    (root / "audits" / OLD).unlink()
    with pytest.raises(MissingResourceError, match="no package verifies"):
        move_current(root)
    assert read_current(root).release == OLD, "what was in use stays"


def test_a_pin_holds_until_it_is_removed(root: Path) -> None:
    assert pin_release(root, OLD).release == OLD
    assert read_pin(root) == OLD
    assert move_current(root).release == OLD
    assert pin_release(root, None).release == NEW
    assert read_pin(root) is None
    assert read_current(root).release == NEW


def test_a_bad_package_cannot_be_pinned(root: Path) -> None:
    move_current(root)
    damage(root, OLD)
    with pytest.raises(CorruptResourceError, match="does not verify"):
        pin_release(root, OLD)
    assert read_pin(root) is None
    assert read_current(root).release == NEW


def test_the_package_in_use_is_opened(root: Path, package: Published) -> None:
    with pytest.raises(MissingResourceError, match="no package is in use"):
        open_current(root)
    move_current(root)
    opened = open_current(str(root), contents="sizes")
    assert opened.info == open_package(package.directory).info
    assert all(root in folder.parents for folder in opened.caches.values())
    (opened.directory / "package.json").write_text("{}")
    with pytest.raises(CorruptResourceError):
        open_current(root)


def test_another_package_at_the_recorded_path_is_refused(root: Path) -> None:
    ref = move_current(root)
    recorded = root / "packages" / "current.json"
    other = "0" * 64
    recorded.write_text(recorded.read_text().replace(ref.manifest_sha256, other))
    said = rf"packages/current\.json names: expected manifest {other}, got manifest {ref.manifest_sha256}"
    with pytest.raises(CorruptResourceError, match=said):
        open_current(root, contents="sizes")
    with pytest.raises(CorruptResourceError, match="is not the package"):
        current_folder(root)


def test_a_command_for_a_package_takes_a_root_and_reads_its_package_in_use(root: Path, command: Command) -> None:
    assert command("package", "cite", root).code == 4
    move_current(root)
    cited = command("package", "cite", current_folder(root))
    assert cited.code == 0
    assert command("package", "cite", root) == cited


def test_what_is_not_there_is_named(root: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingResourceError, match="2019-01-01"):
        read_latest(root, "2019-01-01")
    with pytest.raises(MissingResourceError):
        choose_current(tmp_path / "empty", None)


def test_one_record_has_the_pin_the_version_and_what_was_in_use_before(root: Path) -> None:
    move_current(root, code_version="4")
    pin_release(root, OLD)
    document = json.loads((root / "packages/current.json").read_bytes())
    assert (document["release"], document["pin"], document["why"]) == (OLD, OLD, f"pinned {OLD}")
    assert [(each["release"], each["why"]) for each in document["earlier"]] == [(NEW, "newest")]
    pin_release(root, None)
    pointer = read_pointer(root)
    assert (pointer.used.release, pointer.pin, pointer.code_version) == (NEW, None, "4")
    assert [each.release for each in pointer.earlier] == [NEW, OLD]
    assert pointer.earlier[0].since <= pointer.earlier[1].since <= pointer.used.since
    move_current(root, code_version="4")
    assert read_pointer(root) == pointer, "the package stays in use"


def change(root: Path, **fields: object) -> None:
    path = root / "packages/current.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), **fields}))


@pytest.mark.parametrize(
    "fields",
    [
        {"pin": "newest"}, {"pin": 3}, {"code_version": 4}, {"earlier": None}, {"earlier": ["2024-01-07"]},
        {"earlier": [{}]}, {"reported": 1}, {"since": None}, {"path": "packages/../x"}, {"more": 1},
    ],
)  # fmt: skip
def test_a_record_of_another_form_is_replaced_by_a_pin_only(root: Path, fields: dict[str, object]) -> None:
    pin_release(root, OLD)
    change(root, **fields)
    for read in (read_pin, read_current, read_move, move_current):
        with pytest.raises(CorruptResourceError, match=r"current\.json.*genolewm package pin --newest"):
            read(root)
    assert pin_release(root, None).release == NEW
    assert read_pin(root) is None
    assert read_move(root) == Move(None, read_latest(root, NEW), reported=True), "nothing is reported twice"


def test_a_record_of_the_former_form_is_refused(root: Path) -> None:
    (root / "packages/current.json").write_text(json.dumps(asdict(read_latest(root, NEW))))
    with pytest.raises(CorruptResourceError, match="expected pin and code_version"):
        current_folder(root)


def test_a_move_begins_where_the_last_report_ended(root: Path) -> None:
    old, new = read_latest(root, OLD), read_latest(root, NEW)
    move_current(root)
    assert read_move(root) == Move(None, new)
    mark_reported(root, old)
    assert not read_move(root).reported, "another package is in use"
    mark_reported(root, new)
    assert read_move(root) == Move(None, new, reported=True)
    pin_release(root, OLD)
    assert read_move(root) == Move(new, old)
    pin_release(root, NEW)
    assert read_move(root) == Move(None, new, reported=True), "back without a report"
    pin_release(root, OLD)
    mark_reported(root, old)
    assert read_move(root) == Move(new, old, reported=True)
    assert read_move(root).name == f"{OLD}.{old.manifest_sha256[:12]}_after_{NEW}.{new.manifest_sha256[:12]}"
    assert Move(None, new).name == f"{NEW}.{new.manifest_sha256[:12]}_after_nothing"


def test_a_pin_that_is_set_while_the_pointer_moves_is_kept(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    move_current(root)
    choose = module.choose_current

    def chosen(where: Path, pin: str | None, **options: Any) -> PackageRef:
        ref = choose(where, pin, **options)
        if pin is None:
            change(where, pin=OLD)
        return ref

    monkeypatch.setattr(module, "choose_current", chosen)
    assert move_current(root).release == OLD
    assert read_pin(root) == OLD


@pytest.fixture
def moved_root(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a root whose files are known, an hour after they were written."""
    now_ns = digests.time.time_ns
    monkeypatch.setattr(digests.time, "time_ns", lambda: now_ns() + 3_600 * 10**9)
    move_current(root)
    return root


def some_files(root: Path) -> tuple[Path, Path]:
    folder = current_folder(root)
    return next((folder / "data").glob("train-*")).resolve(), next((root / "embeddings").glob(".gen/*/states.bin"))


def test_the_pointer_reads_nothing_that_is_known_and_a_pin_reads_all(moved_root: Path) -> None:
    moved, pinned = Heard(), Heard()
    assert move_current(moved_root, progress=moved).release == NEW
    assert [done for done, *_ in moved if done] == []
    assert pin_release(moved_root, OLD, progress=pinned).release == OLD
    assert max(done for done, *_ in pinned) > 100_000, "a person who pins a release has every byte of it read"


def test_progress_of_the_pointer_counts_what_was_touched_and_nothing_else(moved_root: Path) -> None:
    touched = some_files(moved_root)
    for path in touched:
        path.touch()
    moved = Heard()
    move_current(moved_root, progress=moved)
    size_bytes = sum(path.stat().st_size for path in touched)
    assert (max(done for done, *_ in moved), moved[-1][1]) == (size_bytes, size_bytes)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("which", [0, 1])
def test_the_pointer_finds_what_the_decision_says_in_a_package_and_its_states(
    moved_root: Path, which: int, damage: str
) -> None:
    folder = current_folder(moved_root)
    DAMAGES[damage](some_files(moved_root)[which])
    if read_table()[damage]["`packages/current`"]:
        with pytest.raises(MissingResourceError, match="no package verifies"):
            move_current(moved_root)
    else:
        move_current(moved_root)
    assert [finding.file for finding in verify_package(folder)]
    with pytest.raises(CorruptResourceError, match=r"does not verify|leads through the symlink"):
        pin_release(moved_root, OLD)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("opening", ["trainer, first opening", "trainer, later"])
def test_a_trainer_finds_what_the_decision_says(
    moved_root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, damage: str, opening: str
) -> None:
    monkeypatch.setenv("GENOLEWM_CACHE", str(tmp_path / "cache"))
    path, folder = some_files(moved_root)[0], current_folder(moved_root)
    if opening == "trainer, later":
        open_package(folder)
        (record,) = (tmp_path / "cache/verified").glob("*.json")
    DAMAGES[damage](path)
    if damage == "bytes changed below the file system" and opening == "trainer, later":
        stamps = json.loads(record.read_bytes())
        at = path.lstat()
        stamps["files"][str(path.relative_to(stamps["directory"]))][-2:] = [at.st_mtime_ns, at.st_ctime_ns]
        record.write_text(json.dumps(stamps))
    if read_table()[damage][opening]:
        with pytest.raises(CorruptResourceError, match=path.name):
            open_package(folder)
    else:
        open_package(folder)


def test_a_record_that_was_removed_is_not_made_again_without_its_pin(root: Path) -> None:
    pin_release(root, OLD)
    (root / REPORTS).mkdir()
    (root / "packages/current.json").unlink()
    with pytest.raises(MissingResourceError, match=r"removed, its pin too.*package pin --newest"):
        move_current(root)
    pin_release(root, OLD)
    assert move_current(root).release == OLD


def test_a_record_that_cannot_be_read_now_is_not_replaced(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin_release(root, NEW)
    before = (root / "packages/current.json").read_bytes()

    def unreadable(path: Path, **_: object) -> object:
        raise ResourceError(str(path), "cannot be read") from PermissionError(errno.EACCES, "denied")

    with monkeypatch.context() as patch:
        patch.setattr(references, "read_document", unreadable)
        with pytest.raises(ResourceError, match="cannot be read"):
            pin_release(root, None)
    assert (root / "packages/current.json").read_bytes() == before


def test_a_package_without_an_audit_is_passed_over_and_cannot_be_pinned(root: Path) -> None:
    (root / "audits" / NEW).unlink()
    assert move_current(root).release == OLD
    assert find_current(root).release == OLD
    (why,) = not_in_use(root).values()
    assert why == f"packages/audit[{NEW}]: the package is not audited. Materialise packages/audit for {NEW}."
    with pytest.raises(MissingResourceError, match=f"is not audited. Materialise packages/audit for {NEW}"):
        pin_release(root, NEW)
    assert read_pin(root) is None
    (root / "audits" / OLD).unlink()
    with pytest.raises(MissingResourceError, match=f"{NEW}: the package is not audited; {OLD}: the package is not"):
        move_current(root)
    assert read_current(root).release == OLD, "what was in use stays"


def test_an_audit_of_another_build_does_not_count(root: Path, package: Published) -> None:
    record_audit(root, NEW, "1" * 64)
    said = f"build of the release is: expected manifest {package.manifest.sha256[:12]}, got manifest 111111111111"
    with pytest.raises(MissingResourceError, match=said):
        pin_release(root, NEW)
    assert move_current(root).release == OLD
    # Nor does an audit that was recorded for another release.
    shutil.copytree(root / "audits" / OLD, root / "audits" / "copy")
    (root / "audits" / NEW).unlink()
    (root / "audits" / "copy").rename(root / "audits" / NEW)
    with pytest.raises(CorruptResourceError):
        pin_release(root, NEW)


def test_a_package_whose_latest_audit_failed_is_left(root: Path, package: Published) -> None:
    assert move_current(root).release == NEW
    record_audit(root, NEW, package.manifest.sha256, passed=False)
    with pytest.raises(RejectedResourceError, match="the audit of the package failed: no_leak_found"):
        pin_release(root, NEW)
    assert find_current(root).release == OLD
    assert move_current(root).release == OLD, "the published audit of before does not save it"
    assert "the audit of the package failed: no_leak_found" in not_in_use(root)[NEW]
    record_audit(root, NEW, package.manifest.sha256)
    assert move_current(root).release == NEW
    assert not_in_use(root) == {}


def test_the_package_in_use_stays_while_a_later_build_of_its_release_is_not_audited(root: Path) -> None:
    used = move_current(root)
    write_latest(root, PackageRef(NEW, f"packages/{NEW}/other", "2" * 64))
    assert move_current(root) == find_current(root) == used
    record_audit(root, NEW, "2" * 64, passed=False)
    assert move_current(root) == used
    assert "the audit of the package failed" in not_in_use(root)[NEW]
    # A person who names the release means its latest package.
    with pytest.raises(RejectedResourceError):
        pin_release(root, NEW)
    pin_release(root, None)
    change(root, pin=NEW)
    assert move_current(root) == used
