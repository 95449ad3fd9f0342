from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from genolewm_assets.errors import CorruptResourceError, MissingResourceError
from genolewm_assets.store.files.atomic import remove_tree
from genolewm_assets.store.files.generations import publish_generation, resolve_generation, split_generation_name
from genolewm_assets_tests.rows import each_row

pytestmark = pytest.mark.disk

DIGEST, OTHER = "0123456789ab", "ba9876543210"


def work_dir(parent: Path, files: dict[str, bytes]) -> Path:
    work = parent / "w"
    work.mkdir(parents=True)
    for name, data in files.items():
        (work / name).parent.mkdir(exist_ok=True)
        (work / name).write_bytes(data)
    return work


def contents(directory: Path) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


def test_publishing_the_same_digest_again_keeps_intact_files_in_place(tmp_path: Path) -> None:
    link = tmp_path / "a"
    generation = publish_generation(work_dir(tmp_path, {"f": b"1"}), link, DIGEST)
    inode = (generation / "f").stat().st_ino
    assert publish_generation(work_dir(tmp_path, {"f": b"1"}), link, DIGEST) == generation
    assert (generation / "f").stat().st_ino == inode
    assert not (tmp_path / "w").exists()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "file emptied": lambda place: (place / "f").write_bytes(b""),
    "file to folder": lambda place: ((place / "f").unlink(), (place / "f/inside").mkdir(parents=True)),
    "file to link": lambda place: ((place / "f").unlink(), (place / "f").symlink_to("/etc/hostname")),
    "folder to link": lambda place: (remove_tree(place / "sub"), (place / "sub").symlink_to("/etc")),
    "folder to file": lambda place: (remove_tree(place / "sub"), (place / "sub").write_bytes(b"")),
    "more": lambda place: ((place / "sub/more").mkdir(), (place / "stray").write_bytes(b"")),
    "gone": remove_tree,
    "moved": lambda place: (place.rename(place.parent.parent / "elsewhere"), place.symlink_to("../elsewhere")),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_publishing_the_same_digest_again_heals_any_damage(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    link = tmp_path / "a"
    files = {"f": b"1", "sub/g": b"2"}
    generation = publish_generation(work_dir(tmp_path, files), link, DIGEST)
    damage(generation)
    publish_generation(work_dir(tmp_path, files), link, DIGEST)
    assert not generation.is_symlink()
    assert contents(resolve_generation(link)) == files
    assert sorted(p.name for p in generation.rglob("*")) == ["f", "g", "sub"]


@pytest.mark.parametrize("occupy", ["file", "folder"])
def test_something_that_is_no_link_is_never_overwritten(tmp_path: Path, occupy: str) -> None:
    link = tmp_path / "a"
    if occupy == "file":
        link.write_bytes(b"mine")
    else:
        (link / "mine").mkdir(parents=True)
    work = work_dir(tmp_path, {"f": b"1"})
    with pytest.raises(CorruptResourceError, match="is in the place of the published link"):
        publish_generation(work, link, DIGEST)
    assert contents(work) == {"f": b"1"}
    assert link.exists()


@pytest.mark.parametrize("digest", ["", "0123", "0123456789AB", "../../../../x", "0123456789abc"])
def test_a_digest_of_another_form_is_refused(tmp_path: Path, digest: str) -> None:
    with pytest.raises(CorruptResourceError, match="12 hex digits"):
        publish_generation(work_dir(tmp_path, {}), tmp_path / "a", digest)


def test_a_scratch_link_left_by_a_killed_publication_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / ".gen").mkdir()
    (tmp_path / ".gen" / "a.link").symlink_to("nowhere")
    publish_generation(work_dir(tmp_path, {"f": b"1"}), tmp_path / "a", DIGEST)
    assert [p.name for p in (tmp_path / ".gen").iterdir()] == [f"a.{DIGEST}"]


def test_resolving_names_what_is_wrong(tmp_path: Path) -> None:
    link = tmp_path / "a"
    with pytest.raises(MissingResourceError, match="nothing is published"):
        resolve_generation(link)
    for target in ("elsewhere", f".gen/b.{DIGEST}", ".gen/a.xyz", f"/x/.gen/a.{DIGEST}", f".gen/../.gen/a.{DIGEST}"):
        link.symlink_to(target)
        with pytest.raises(CorruptResourceError, match="is not a published link"):
            resolve_generation(link)
        link.unlink()
    link.symlink_to(f".gen/a.{DIGEST}")
    with pytest.raises(MissingResourceError, match="is gone"):
        resolve_generation(link)
    link.unlink()
    link.mkdir()
    with pytest.raises(CorruptResourceError, match="is not a published link"):
        resolve_generation(link)


def test_a_generation_that_became_a_link_out_is_refused(tmp_path: Path) -> None:
    generation = publish_generation(work_dir(tmp_path, {"f": b"1"}), tmp_path / "a", DIGEST)
    generation.rename(tmp_path / "moved")
    generation.symlink_to(tmp_path / "moved")
    with pytest.raises(MissingResourceError, match="is gone"):
        resolve_generation(tmp_path / "a")


@each_row(
    ("name", "parts"),
    [
        (f"chr21.{DIGEST}", ("chr21", DIGEST)),
        (f"2026-02-26.2.{DIGEST}", ("2026-02-26.2", DIGEST)),
        (f"a.{DIGEST}.{OTHER}", (f"a.{DIGEST}", OTHER)),
        (f".{DIGEST}", None),
        (DIGEST, None),
        ("chr21.link", None),
        (f"chr21.{DIGEST}0", None),
    ],
)
def test_split_generation_name(name: str, parts: tuple[str, str] | None) -> None:
    assert split_generation_name(name) == parts
