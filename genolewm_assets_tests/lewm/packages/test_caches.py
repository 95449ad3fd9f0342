from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from genolewm_assets.errors import CorruptResourceError, MissingResourceError, RootError
from genolewm_assets.lewm.packages.reader import open_package, verify_package
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.worlds.lewm.package_world import (
    GENOME_DIGEST,
    make_cache,
    make_caches,
    make_sources,
    publish,
)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    root = Root(tmp_path / "root")
    root.claim("tiny", GENOME_DIGEST)
    sources = make_sources()
    publish(root, replace(sources, caches=make_caches(root, sources)))
    return root


def only_package(root: Root) -> Path:
    return next((root.path / "packages").glob("*/sample"))


def cache_link(root: Root, source: str) -> Path:
    caches = open_package(only_package(root)).info.caches
    return root.path / next(ref.path for ref in caches if ref.source == source)


def test_a_missing_cache_is_named(root):
    link = cache_link(root, "chr17")
    shutil.rmtree(link.resolve())
    with pytest.raises(MissingResourceError, match=rf"{link.name} \(cache of chr17\): the cache .* is missing"):
        open_package(only_package(root))
    assert [(f.location, f.file) for f in verify_package(only_package(root))] == [(f"embeddings/{link.name}", None)]


def test_a_cache_published_since_is_not_the_one_of_the_package(root):
    link = cache_link(root, "chr17")
    before = open_package(only_package(root)).caches["chr17"]
    make_cache(root, "chr17", 36, key=link.name, content=b"others")
    assert link.resolve() != before
    assert open_package(only_package(root)).caches["chr17"] == before  # pinned by its digest
    assert verify_package(only_package(root)) == []
    shutil.rmtree(before)
    with pytest.raises(CorruptResourceError, match="a different cache is stored at the path"):
        open_package(only_package(root))
    assert [f.file for f in verify_package(only_package(root))] == ["manifest.json"]


def test_a_cache_of_another_size_is_refused_and_a_flipped_bit_is_found_by_verify(root):
    path = cache_link(root, "mrna_evo2") / "states.bin"
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    with pytest.raises(CorruptResourceError, match=r"states\.bin: size differs"):
        open_package(only_package(root))
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    open_package(only_package(root))  # sizes only: each batch has its own checksum
    assert [(f.location, f.file) for f in verify_package(only_package(root))] == [
        (f"embeddings/{path.parent.name}", "states.bin")
    ]
    path.write_bytes(data)
    (path.parent / "stray").write_bytes(b"")
    assert [f.file for f in verify_package(only_package(root))] == ["stray"]


def test_a_root_of_another_genome_is_refused(root, tmp_path):
    other = Root(tmp_path / "other")
    other.claim("tiny", "f" * 64)
    for call in (open_package, verify_package):
        with pytest.raises(RootError, match="the root belongs to another genome than the package"):
            call(only_package(root), cache_root=other.path)


def test_a_copied_package_needs_to_be_told_where_its_caches_are(root, tmp_path):
    copy = tmp_path / "elsewhere" / "package"
    shutil.copytree(only_package(root).resolve(), copy)
    with pytest.raises(MissingResourceError, match="no root contains the package"):
        open_package(copy)
    assert len(verify_package(copy)) == 7  # one finding for every cache
    assert open_package(copy, cache_root=root.path).caches == open_package(only_package(root)).caches
    assert verify_package(copy, cache_root=root.path) == []


def test_plain_copies_of_caches_will_do(root, tmp_path):
    ref = open_package(only_package(root)).info.caches
    for cache in ref:
        shutil.copytree((root.path / cache.path).resolve(), tmp_path / "disk" / cache.path)
    opened = open_package(only_package(root), cache_root=tmp_path / "disk")
    assert opened.caches["chr17"] == tmp_path / "disk" / opened.info.caches[0].path
    assert verify_package(only_package(root), cache_root=tmp_path / "disk") == []


def test_a_path_out_of_the_root_is_refused(tmp_path):
    root = Root(tmp_path / "root")
    root.claim("tiny", GENOME_DIGEST)
    ref = make_cache(root, "chr17", 36)
    publish(root, make_sources(caches=(replace(ref, path="embeddings/../../x"),)))
    with pytest.raises(CorruptResourceError, match="not allowed"):
        open_package(only_package(root))
