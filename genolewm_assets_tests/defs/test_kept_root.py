"""The root that 0.1.0 built, kept in ``golden``, is opened by today's readers: tables, arrays, states, tuples, verdict.

``GENOLEWM_WRITE_GOLDEN=1 pytest genolewm_assets_tests/defs/test_kept_root.py`` keeps the built world of today in its
place; after a release only with a new major version of a format (docs/formats.md).
"""

from __future__ import annotations

import hashlib
import json
import os
import runpy
import tarfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import genolewm_assets
from genolewm_assets.lewm import GenoLeWMDataset, GenoLeWMValDataset
from genolewm_assets.packages import current_folder, open_package, open_tables
from genolewm_assets.store import ArrayStoreReader, open_table
from genolewm_assets.store.arrays import find_caches
from genolewm_assets.store.artefacts import MANIFEST, Root, links, read_manifest
from genolewm_assets.training.batches import TrainingBatch
from genolewm_assets.verification import verify_whole_root
from genolewm_assets_tests.places import REPOSITORY, TESTS
from genolewm_assets_tests.worlds.graph.tiny_world import RELEASES

ARCHIVE, FACTS = TESTS / "golden/root_0.1.0.tar.xz", TESTS / "golden/root_0.1.0.json"
#: What a reader of the newest package does not need, and what takes most room: profiles, and weights of the model.
LEFT_OUT = (
    *("work", "models", "forensic", "packages/reports"),
    *(f"{folder}/{RELEASES[0]}" for folder in ("packages", "audits", "holdouts", "mito/variants")),
)


def keep(root: Path) -> None:
    """Write a root as the kept archive, and the facts that its readers found."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        place = member.name.replace(".gen/", "")
        left_out = place.endswith(".digests") or any(
            place == name or place.startswith((f"{name}/", f"{name}.")) for name in LEFT_OUT
        )
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return None if left_out else member

    with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
        for path in sorted(root.iterdir()):
            archive.add(path, path.name, filter=plain)


def digest(batches: Iterable[TrainingBatch]) -> str:
    """Return the digest of an epoch: which windows, edits, labels and pooled blocks, in which order."""
    found = hashlib.sha256()
    for batch in batches:
        for one in batch.tuples:
            stated = (one.position, one.slot, one.window_id, one.target_window, str(one.edit_source), one.label)
            found.update(json.dumps([*stated, one.block_start, one.block_stop]).encode())
    return found.hexdigest()


def read_facts(root: Path) -> dict[str, object]:
    """Return what readers find: sizes of tables and arrays, tuples of seed 0, and the verdict of the audit."""
    tables = {
        f"{link.relative_to(root)}/{entry.path}": entry.rows
        for link in links(root)
        if (link / MANIFEST).is_file()
        for entry in read_manifest(link.resolve()).files
        if entry.path.endswith(".parquet")
    }
    arrays = {str(path.relative_to(root)): ArrayStoreReader(path).arrays for path in find_caches(root)}
    training = list(GenoLeWMDataset.current(root, seed=0))
    states = sum(float(np.abs(batch.source_states).sum()) for batch in training if batch.source_states is not None)
    (audit,) = [link for link in (root / "audits").iterdir() if link.is_symlink()]
    return {
        "version": genolewm_assets.__version__,
        "tables": tables,
        "stores": {name: {one: list(spec.shape) for one, spec in specs.items()} for name, specs in arrays.items()},
        "training": {"tuples": sum(map(len, training)), "sha256": digest(training), "states": round(states, 2)},
        "validation": digest(GenoLeWMValDataset.current(root, "holdout-chr", min_left_context_bp=100)),
        "audit": {check.name: check.passed for check in read_manifest(audit.resolve()).checks},
    }


@pytest.fixture(scope="module")
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the kept root, unpacked; a new one is kept first if that is asked for."""
    write = os.environ.get("GENOLEWM_WRITE_GOLDEN") == "1"
    if write:
        keep(request.getfixturevalue("built").root)
    root = tmp_path_factory.mktemp("kept") / "root"
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(root, filter="data")
    if write:
        FACTS.write_text(json.dumps(read_facts(root), indent=1, sort_keys=True) + "\n")
    return root


def test_readers_find_what_was_kept(kept: Path) -> None:
    facts = json.loads(FACTS.read_text())
    assert ARCHIVE.stat().st_size < 400_000
    assert facts["version"] == "0.1.0"
    found = read_facts(kept)
    assert found["training"].pop("states") == pytest.approx(facts["training"].pop("states"), rel=1e-5)
    assert {**found, "version": "0.1.0"} == facts
    assert facts["training"]["tuples"] > 100
    assert facts["audit"]
    assert all(facts["audit"].values())


def test_every_table_has_the_columns_of_today(kept: Path) -> None:
    schemas = {table.name: table for table in runpy.run_path(str(REPOSITORY / "docs/generated.py"))["EVERY_TABLE"]}
    seen = set()
    for place, rows in json.loads(FACTS.read_text())["tables"].items():
        path = kept / place
        location = next(folder for folder in path.parents if folder.is_symlink())
        table = open_table(kept, str(location.relative_to(kept)), file=str(path.relative_to(location)))
        name = (pq.read_schema(path).metadata or {}).get(b"genolewm.table", b"").decode()
        assert rows is None or table.num_rows == rows
        if name:  # else the index of an array store, which its reader opens
            schemas[name].check(table.schema, where=place)
            seen.add(name)
    assert len(seen) >= 20


def test_every_byte_verifies_and_the_package_opens(kept: Path) -> None:
    assert [finding for finding in verify_whole_root(Root(kept)) if finding.is_fault] == []
    for store in find_caches(kept):
        assert ArrayStoreReader(store).verify() == []
    package = open_package(current_folder(kept), contents="hash")
    assert package.info.caches
    assert open_tables(current_folder(kept)).info == package.info
