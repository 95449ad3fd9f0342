from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from genolewm_assets.errors import MissingResourceError
from genolewm_assets.progress import NO_PROGRESS, ByteCount
from genolewm_assets.store.artefacts.build import build
from genolewm_assets.store.artefacts.published import (
    ArtefactId,
    find_damage,
    has_listed_sizes,
    list_files,
    measure_file,
)
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.worlds.store.plans import CONTENT, flip, make_plan


def test_artefacts_are_named_as_in_messages() -> None:
    assert str(ArtefactId("gnomad/shard", "chr21")) == "gnomad/shard[chr21]"
    assert str(ArtefactId("reference/genome")) == "reference/genome"


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_size_and_digest_come_from_one_reading(tmp_path: Path, size: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    (tmp_path / "f").write_bytes(data[:size])
    assert measure_file(tmp_path / "f", ByteCount(NO_PROGRESS, 0)) == (size, hashlib.sha256(data[:size]).hexdigest())


def test_measuring_does_not_follow_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(OSError, match="symbolic link"):
        measure_file(tmp_path / "link", ByteCount(NO_PROGRESS, 0))


def test_files_are_listed_without_the_two_about_the_directory(root: Root) -> None:
    assert list_files(build(root, make_plan()).directory) == sorted(CONTENT)


def test_all_damages_are_found_not_only_the_first(root: Root) -> None:
    published = build(root, make_plan())
    for name in CONTENT:
        flip(published.file(name), 0)
    damages = list(find_damage(published.directory, published.manifest, ByteCount(NO_PROGRESS, 0)))
    assert [damage.file for damage in damages] == sorted(CONTENT)


def test_a_directory_under_another_name_is_not_the_generation(root: Root) -> None:
    published = build(root, make_plan())
    moved = published.directory.rename(published.directory.with_name("chr21.0123456789ab"))
    (damage,) = find_damage(moved, published.manifest, ByteCount(NO_PROGRESS, 0))
    assert (damage.file, damage.expected, damage.got) == (
        "manifest.json",
        "0123456789ab",
        published.manifest.sha256[:12],
    )
    assert not has_listed_sizes(moved, published.manifest)


def test_a_file_that_the_manifest_does_not_list_cannot_be_asked_for(root: Root) -> None:
    published = build(root, make_plan())
    for name in ("manifest.json", "../x", "gone"):
        with pytest.raises(MissingResourceError, match="the manifest does not list this file"):
            published.file(name)
