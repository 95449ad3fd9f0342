from __future__ import annotations

from genolewm_assets.store.artefacts.build import build
from genolewm_assets.store.artefacts.inventory import generations, links, plain_directories
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.files.generations import is_linked, link_of_generation
from genolewm_assets_tests.worlds.store.plans import make_plan


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
