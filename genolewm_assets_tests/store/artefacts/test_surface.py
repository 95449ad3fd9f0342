from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.store.artefacts.build import BuildPlan, build, is_current
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.files.atomic import remove_tree
from genolewm_assets_tests.worlds.store.plans import make_plan

SHARD = "clinvar/2026-02-26/shard"


def plan(*names: str, code_version: str = "1") -> BuildPlan:
    artefact = ArtefactId("clinvar/shard", "2026-02-26")
    files = {name: name.encode() for name in names}
    return make_plan(files, artefact=artefact, location=SHARD, surface=True, code_version=code_version)


def folder_of(root: Root) -> Path:
    return root.path / "clinvar" / "2026-02-26"


def surface(root: Root) -> dict[str, str]:
    return {p.name: str(p.readlink()) for p in folder_of(root).iterdir() if p.is_symlink() and p.name != "shard"}


def test_every_file_and_folder_shows_one_level_up(root: Root) -> None:
    build(root, plan("chr20.parquet", "chr21.parquet", "sub/deep", "sub/deeper"))
    names = ("chr20.parquet", "chr21.parquet", "manifest.json", "provenance.json", "sub")
    assert surface(root) == {name: f"shard/{name}" for name in names}
    for name in ("chr21.parquet", "sub/deep"):
        assert (folder_of(root) / name).read_text() == name


def test_links_follow_the_files_of_the_newest_build(root: Root) -> None:
    build(root, make_plan(location="clinvar/2026-02-26/vcf", artefact=ArtefactId("clinvar/release", "2026-02-26")))
    build(root, plan("chr20.parquet", "sub/deep"))
    build(root, plan("chr21.parquet", code_version="2"))
    assert sorted(surface(root)) == ["chr21.parquet", "manifest.json", "provenance.json", "vcf"]
    assert (folder_of(root) / "vcf" / "rejects.bin").exists()


@pytest.mark.parametrize("code_version", ["1", "2"])
@pytest.mark.parametrize(
    "target", [None, "../2020-11-07/chr20.parquet", "nowhere", "/etc/hostname", "shard/manifest.json"]
)
def test_a_link_that_is_missing_or_leads_astray_is_righted(root: Root, target: str | None, code_version: str) -> None:
    build(root, plan("chr20.parquet"))
    before = surface(root)
    name = folder_of(root) / "chr20.parquet"
    name.unlink()
    if target is not None:
        name.symlink_to(target)
    assert not is_current(root, plan("chr20.parquet"))
    again = plan("chr20.parquet", code_version=code_version)
    assert build(root, again).reused is (code_version == "1")
    assert surface(root) == before
    assert is_current(root, again)


@pytest.mark.parametrize("code_version", ["1", "2"])
@pytest.mark.parametrize("put", [Path.touch, Path.mkdir])
def test_a_plain_file_in_place_of_a_link_is_named(root: Root, put: Callable[[Path], None], code_version: str) -> None:
    build(root, plan("chr20.parquet"))
    name = folder_of(root) / "chr20.parquet"
    name.unlink()
    put(name)
    with pytest.raises(CorruptResourceError, match=r"chr20\.parquet: is in the place of a file of 'shard'"):
        build(root, plan("chr20.parquet", code_version=code_version))
    assert not name.is_symlink()
    assert not root.is_rejected(SHARD)
    remove_tree(name)
    build(root, plan("chr20.parquet", code_version=code_version))
    assert name.read_bytes() == b"chr20.parquet"


@pytest.mark.parametrize("name", ["vcf", "shard", "notes.txt"])
def test_what_is_not_ours_is_never_replaced(root: Root, name: str) -> None:
    build(root, make_plan(location="clinvar/2026-02-26/vcf"))
    build(root, plan("chr20.parquet"))
    mine = folder_of(root) / "notes.txt"
    mine.write_bytes(b"mine")
    before = surface(root)
    with pytest.raises(CorruptResourceError, match=f"2026-02-26/{name}: is in the place of a file of 'shard'"):
        build(root, plan(name, code_version="2"))
    assert surface(root) == before
    assert mine.read_bytes() == b"mine"
    assert is_current(root, plan("chr20.parquet"))
