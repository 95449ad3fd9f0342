"""A published package with its caches, for tests that only read it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from genolewm_assets.store.artefacts.published import Published
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.worlds.lewm.package_world import GENOME_DIGEST, make_caches, make_sources, publish


@pytest.fixture(scope="session")
def package_root(tmp_path_factory: pytest.TempPathFactory) -> Root:
    """Return a root with caches of states and nothing else; not to be changed."""
    root = Root(tmp_path_factory.mktemp("packages") / "root")
    root.claim("tiny", GENOME_DIGEST)
    return root


@pytest.fixture(scope="session")
def package(package_root: Root) -> Published:
    """Return a package in that root; not to be changed."""
    sources = make_sources()
    return publish(package_root, replace(sources, caches=make_caches(package_root, sources)))
