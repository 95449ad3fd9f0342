from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from genolewm_assets.errors import CorruptResourceError, MissingResourceError, RejectedResourceError, VcfError
from genolewm_assets.store.artefacts.build import build
from genolewm_assets.store.artefacts.inputs import open_input
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.files.atomic import remove_tree
from genolewm_assets.store.files.generations import publish_generation
from genolewm_assets_tests.worlds.store.plans import ARTEFACT, CONTENT, LOCATION, failing_plan, flip, make_plan


def test_an_intact_input_opens_and_keeps_its_generation(root: Root) -> None:
    first = build(root, make_plan())
    opened = open_input(root, ARTEFACT, LOCATION)
    assert (opened.directory, opened.manifest, opened.ref) == (first.directory, first.manifest, first.ref)
    build(root, make_plan({"variants.bin": b"new"}, code_version="2"))
    assert opened.file("variants.bin").read_bytes() == CONTENT["variants.bin"]
    assert open_input(root, ARTEFACT, LOCATION).file("variants.bin").read_bytes() == b"new"


def test_a_missing_input_names_the_partition_to_build(root: Root) -> None:
    with pytest.raises(
        MissingResourceError, match=r"gnomad/shard\[chr21\] .*Rebuild gnomad/shard\[chr21\]\."
    ) as raised:
        open_input(root, ARTEFACT, LOCATION)
    assert raised.value.exit_code == 4


def test_an_input_whose_latest_build_failed_is_refused_with_the_reason(root: Root) -> None:
    build(root, make_plan())
    with pytest.raises(VcfError):
        build(root, failing_plan())
    with pytest.raises(RejectedResourceError, match=r"latest build failed: in\.vcf:3: is malformed"):
        open_input(root, ARTEFACT, LOCATION)
    with pytest.raises(RejectedResourceError):
        build(root, make_plan(code_version="3", passed=False))
    with pytest.raises(RejectedResourceError, match=r"failed checks \['content_is_right'\]"):
        open_input(root, ARTEFACT, LOCATION)


def test_an_input_that_never_succeeded_says_why_rather_than_that_it_is_missing(root: Root) -> None:
    with pytest.raises(VcfError):
        build(root, failing_plan())
    with pytest.raises(RejectedResourceError, match="is malformed"):
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
def test_damage_is_found_and_named_and_the_remedy_is_a_rebuild(
    root: Root, damage: Callable[[Path], object], message: str
) -> None:
    damage(build(root, make_plan()).directory)
    with pytest.raises((CorruptResourceError, MissingResourceError), match=message) as raised:
        open_input(root, ARTEFACT, LOCATION)
    assert str(raised.value).endswith("Rebuild gnomad/shard[chr21].")
    assert not build(root, make_plan()).reused
    assert open_input(root, ARTEFACT, LOCATION).file("sub/extra.bin").read_bytes() == b"e"


@pytest.mark.parametrize("name", [*CONTENT, "manifest.json"])
def test_no_flipped_bit_goes_unseen(root: Root, name: str) -> None:
    directory = build(root, make_plan({**CONTENT, "variants.bin": b"short"})).directory
    size = (directory / name).stat().st_size
    for index in range(0, size, max(1, size // 60)):
        flip(directory / name, index, bit=index % 8)
        with pytest.raises(CorruptResourceError):
            open_input(root, ARTEFACT, LOCATION)
        flip(directory / name, index, bit=index % 8)
    open_input(root, ARTEFACT, LOCATION)


def test_an_unreadable_provenance_changes_nothing(root: Root) -> None:
    directory = build(root, make_plan()).directory
    (directory / "provenance.json").write_bytes(b"\xff")
    open_input(root, ARTEFACT, LOCATION)
    (directory / "provenance.json").unlink()
    open_input(root, ARTEFACT, LOCATION)


def test_progress_reaches_the_total(root: Root) -> None:
    seen: list[tuple[int, int | None]] = []

    class Listener:
        def advance(self, done: int, total: int | None, unit: str) -> None:
            seen.append((done, total))

    build(root, make_plan({"big.bin": b"x" * (2 << 20)}))
    open_input(root, ARTEFACT, LOCATION, progress=Listener())
    assert seen == [(1 << 20, 2 << 20), (2 << 20, 2 << 20)]
