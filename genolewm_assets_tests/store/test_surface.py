from __future__ import annotations

import pytest

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.store import ArtefactId, BuildPlan, Root, build, is_current
from genolewm_assets_tests.store.plans import make_plan

SHARD = "clinvar/2026-02-26/shard"


def plan(*names: str, code_version: str = "1") -> BuildPlan:
    artefact = ArtefactId("clinvar/shard", "2026-02-26")
    files = {name: name.encode() for name in names}
    return make_plan(files, artefact=artefact, location=SHARD, surface=True, code_version=code_version)


def surface(root: Root) -> dict[str, str]:
    folder = root.path / "clinvar" / "2026-02-26"
    return {p.name: str(p.readlink()) for p in folder.iterdir() if p.is_symlink() and p.name != "shard"}


def test_every_file_shows_one_level_up(root: Root) -> None:
    build(root, plan("chr20.parquet", "chr21.parquet"))
    names = ("chr20.parquet", "chr21.parquet", "manifest.json", "provenance.json")
    assert surface(root) == {name: f"shard/{name}" for name in names}
    assert (root.path / "clinvar" / "2026-02-26" / "chr21.parquet").read_bytes() == b"chr21.parquet"


def test_links_follow_the_files_of_the_newest_build(root: Root) -> None:
    build(root, make_plan(location="clinvar/2026-02-26/vcf", artefact=ArtefactId("clinvar/release", "2026-02-26")))
    build(root, plan("chr20.parquet", "sub/deep"))
    build(root, plan("chr21.parquet", code_version="2"))
    assert sorted(surface(root)) == ["chr21.parquet", "manifest.json", "provenance.json", "vcf"]
    assert (root.path / "clinvar" / "2026-02-26" / "vcf" / "rejects.bin").exists()


def test_folders_show_as_a_whole(root: Root) -> None:
    build(root, plan("sub/deep", "sub/deeper"))
    assert (root.path / "clinvar" / "2026-02-26" / "sub" / "deep").read_bytes() == b"sub/deep"


def test_a_link_that_is_missing_makes_it_not_current_and_is_laid_again(root: Root) -> None:
    build(root, plan("chr20.parquet"))
    before = surface(root)
    (root.path / "clinvar" / "2026-02-26" / "chr20.parquet").unlink()
    assert not is_current(root, plan("chr20.parquet"))
    assert build(root, plan("chr20.parquet")).reused
    assert surface(root) == before
    assert is_current(root, plan("chr20.parquet"))


@pytest.mark.parametrize("name", ["vcf", "shard", "notes.txt"])
def test_what_is_not_ours_is_never_replaced(root: Root, name: str) -> None:
    build(root, make_plan(location="clinvar/2026-02-26/vcf"))
    build(root, plan("chr20.parquet"))
    mine = root.path / "clinvar" / "2026-02-26" / "notes.txt"
    mine.write_bytes(b"mine")
    before = surface(root)
    with pytest.raises(CorruptResourceError, match=f"2026-02-26/{name}: is in the way of a file of 'shard'"):
        build(root, plan(name, code_version="2"))
    assert surface(root) == before
    assert mine.read_bytes() == b"mine"
    assert is_current(root, plan("chr20.parquet"))
