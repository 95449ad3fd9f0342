"""A power cut while an array store is written, finished or published: committed rows stay, what is shown is whole."""

from __future__ import annotations

import os
import pickle
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.store import ArrayStoreReader, is_complete
from genolewm_assets.store.artefacts.build import BuildPlan, BuildReport, build
from genolewm_assets.store.artefacts.gc import collect_garbage
from genolewm_assets.store.artefacts.inputs import open_input
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets_tests.faults.killing import start
from genolewm_assets_tests.faults.lossy_disk import LossyDisk, Tree, lay, lossy_disk
from genolewm_assets_tests.worlds.store.array_caches import (
    KEY,
    N_ROWS,
    build_cache,
    open_cache,
    published_bytes,
    write_sources,
)
from genolewm_assets_tests.worlds.store.array_caches import write_rows as write_cache_rows
from genolewm_assets_tests.worlds.store.array_stores import FINGERPRINT, contents, open_writer, values, write_rows
from genolewm_assets_tests.worlds.store.interrupted_store import ROWS, check_prefix, write_store
from genolewm_assets_tests.worlds.store.plans import ARTEFACT, LOCATION, make_plan, new_root, picture

pytestmark = [pytest.mark.usefixtures("no_syncs")]


@dataclass
class Cuts:
    """Collects what power cuts would have left, and what had been promised by then."""

    draw: random.Random
    share: float
    promised: int = 0
    left: list[tuple[int, int, Tree]] = field(default_factory=list)

    def at(self, disk: LossyDisk, number: int) -> None:
        """Cut the power before a call: with all of the entries kept, none, or any."""
        for losing in (0.0, 0.5, 1.0):
            if self.draw.random() < self.share:
                self.left.append((number, self.promised, disk.cut(losing=losing)))


def write_promising(directory: Path, cuts: Cuts) -> None:
    """Continue and finish a store, noting what the writer says is committed."""
    with open_writer(directory) as writer:
        if not is_complete(directory):
            cuts.promised = max(cuts.promised, writer.n_rows)
            for first in range(writer.n_rows, ROWS, 3):
                write_rows(writer, first, min(first + 3, ROWS))
                cuts.promised = max(cuts.promised, writer.n_rows // 8 * 8)
            writer.commit()
        cuts.promised = ROWS
        writer.finalize(FINGERPRINT)


def check_cuts(cuts: Cuts, folder: Path, undisturbed: dict[str, bytes]) -> set[int]:
    """See that each store goes on from what was promised, and ends as an undisturbed one; returns the rows met."""
    met = set()
    for number, promised, tree in cuts.left:
        directory = lay(tree, folder / f"{number}.{len(list(folder.iterdir()))}") / "s"
        rows = check_prefix(directory)
        assert rows >= promised, f"of {promised} committed rows {rows} are left by a cut before call {number}"
        met.add(rows)
        write_store(directory)
        assert contents(directory) == undisturbed, f"after a cut before call {number}"
    return met


def test_a_power_cut_at_any_call(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    cuts = Cuts(random.Random(7), share=0.5)
    with lossy_disk(tmp_path / "disk", cuts.draw) as disk:
        assert disk.follow(lambda: write_promising(tmp_path / "disk" / "s", cuts), before=cuts.at)
    (tmp_path / "cut").mkdir()
    assert check_cuts(cuts, tmp_path / "cut", undisturbed) == {0, 8, 16, ROWS}
    assert len(cuts.left) > 100


def test_a_power_cut_after_a_kill(tmp_path: Path, undisturbed: dict[str, bytes]) -> None:
    """What a killed process left unsynced is not taken for safe by the one that goes on."""
    (tmp_path / "cut").mkdir()
    checked = 0
    for die_at in (*range(12), *range(12, 200, 7)):
        cuts, folder = Cuts(random.Random(die_at), share=0.02), tmp_path / f"disk{die_at}"
        write = partial(write_promising, folder / "s", cuts)
        with lossy_disk(folder, cuts.draw) as disk:
            ended = disk.follow(write, die_at=die_at)
            disk.follow(write, before=cuts.at)
        check_cuts(cuts, tmp_path / "cut", undisturbed)
        checked += len(cuts.left)
        if ended:
            break
    assert 60 < die_at < 199
    assert checked > 100


def followed(folder: Path, cuts: Cuts, action: Callable[[], object]) -> Cuts:
    """Follow an action in a child, whose locks are those of a dead process afterwards."""
    file = folder.with_suffix(".pickle")

    def follow() -> None:
        with lossy_disk(folder, cuts.draw) as disk:
            assert disk.follow(action, before=cuts.at)
        file.write_bytes(pickle.dumps(cuts))

    _, status = os.waitpid(start(follow), 0)
    assert status == 0, "the action failed in the child"
    found: Cuts = pickle.loads(file.read_bytes())
    return found


def promising_plan(cuts: Cuts, code_version: str, resumed: list[int]) -> BuildPlan:
    def write(directory: Path) -> BuildReport:
        with open_writer(directory) as writer:
            resumed.append(writer.n_rows)
        write_promising(directory, cuts)
        return BuildReport({"rows": ROWS}, {"index.parquet": ROWS})

    return replace(make_plan(code_version=code_version), write=write, resumable=True)


def test_a_power_cut_while_a_build_writes_and_publishes(tmp_path: Path) -> None:
    def plan(version: str, resumed: list[int]) -> BuildPlan:
        return promising_plan(cuts, version, resumed)

    cuts = Cuts(random.Random(11), share=0.2)
    root = new_root(tmp_path / "disk")
    build(root, plan("old", []))
    cuts.promised = 0
    shutil.copytree(root.path, tmp_path / "undisturbed", symlinks=True)
    undisturbed = Root(tmp_path / "undisturbed")
    build(undisturbed, plan("new", []))
    collect_garbage(undisturbed)
    cuts.promised = 0
    cuts = followed(root.path, cuts, lambda: build(root, plan("new", [])))
    shown: set[str] = set()
    last = cuts.left[-1][0]
    for number, promised, tree in cuts.left:
        root = Root(lay(tree, tmp_path / f"cut{number}.{len(shown)}"), lock_wait_s=0)
        assert not any(finding.is_fault for finding in verify_root(root)), f"after a cut before call {number}"
        opened = open_input(root, ARTEFACT, LOCATION)
        reader = ArrayStoreReader(opened.directory, check=True)
        np.testing.assert_array_equal(reader.get_rows(range(ROWS), "states"), values(0, ROWS)["states"])
        shown.add(version := opened.manifest.code_version)
        assert version == "new" or number < last, "what a build returned is not published after a power cut"
        resumed: list[int] = []
        published = build(root, plan("new", resumed))
        assert (resumed or [ROWS])[0] >= promised, f"committed rows are lost by a cut before call {number}"
        assert published.manifest.code_version == "new"
        collect_garbage(root)
        assert picture(root) == picture(undisturbed), f"after a cut before call {number}"
        shutil.rmtree(root.path)
    assert shown == {"old", "new"}
    assert len(cuts.left) > 80


def test_a_power_cut_while_a_cache_is_written_and_published(tmp_path: Path) -> None:
    folder, cuts = tmp_path / "disk" / "caches", Cuts(random.Random(13), share=0.3)
    files = write_sources(tmp_path / "data", 1)
    old = published_bytes(build_cache(folder, files))
    write_sources(tmp_path / "data", 2)
    new = published_bytes(build_cache(tmp_path / "undisturbed", files))

    def rebuild() -> None:
        with open_cache(folder, files) as writer:
            for row in range(len(writer.resume_keys()) + 1, N_ROWS + 1):
                cuts.promised = len(writer.resume_keys()) // 4 * 4
                write_cache_rows(writer, files, stop=row)
            writer.commit()
            cuts.promised = N_ROWS
            writer.finalize()

    cuts = followed(folder.parent, cuts, rebuild)
    shown, last = [], cuts.left[-1][0]
    for number, promised, tree in cuts.left:
        where = lay(tree, tmp_path / "cut") / "caches"
        found = published_bytes((where / KEY).resolve())
        assert found in (old, new), f"a mix is shown after a cut before call {number}"
        assert found == new or number < last, "what was finished is not shown after a power cut"
        shown.append(found == new)
        with open_cache(where, files) as writer:
            assert len(writer.resume_keys()) >= promised, f"committed rows are lost by a cut before call {number}"
        assert published_bytes(build_cache(where, files)) == new, f"after a cut before call {number}"
        shutil.rmtree(where.parent)
    assert set(shown) == {False, True}
    assert len(cuts.left) > 100
