"""A piece, holdouts, a package and its audit under kill -9 at each kind of call: the next build ends undisturbed."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from genolewm_assets.defs.assets.graph import GATED
from genolewm_assets.defs.assets.packages.split import record_latest
from genolewm_assets.defs.runtime.workspace import Workspace
from genolewm_assets.progress import NO_PROGRESS
from genolewm_assets.store.artefacts import inventory
from genolewm_assets.store.artefacts.build import build
from genolewm_assets.store.artefacts.gc import collect_garbage
from genolewm_assets.store.artefacts.inputs import open_input
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets.store.files import digests
from genolewm_assets_tests.faults import file_layer
from genolewm_assets_tests.faults.file_layer import Call
from genolewm_assets_tests.faults.kill_points import killed_at
from genolewm_assets_tests.faults.killing import result_of
from genolewm_assets_tests.worlds.graph.built_world import copied_world
from genolewm_assets_tests.worlds.graph.tiny_world import CORPUS, RELEASES, TinyWorld
from genolewm_assets_tests.worlds.store.plans import picture

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("no_syncs")]

#: What is built one after the other: one artefact, killed once at each kind of call, or a release, a hundred times at
#: random.
ACTIONS = {
    "piece": [("corpus/windows", CORPUS[0])],
    "holdouts": [("holdouts/manifest", RELEASES[1])],
    "package": [("packages/split", RELEASES[1])],
    "audit": [("packages/audit", RELEASES[1])],
    "release": [(asset, RELEASES[1]) for asset in ("holdouts/manifest", "packages/split", "packages/audit")],
}
_AT_RANDOM = 100
#: Whose folder has links to pieces.
LINKED = {"package", "release"}
_NUMBER = re.compile(r"[0-9a-f]{8,}|\d+|tmp\w+")
AtCall = Callable[[Call | None], bool]


class Builder:
    """Builds some artefacts, of which an older version of the code published the same, in copies of a root."""

    def __init__(self, world: TinyWorld, which: str) -> None:
        self._world, self._artefacts, self.which = world, ACTIONS[which], which
        self._former = world.folder / f"former {which}"
        shutil.copytree(world.root, self._former, symlinks=True)
        if which == "release":
            # Else the release finds its package built: its inputs are those of the root before.
            for name in ("packages", "audits"):
                shutil.rmtree(self._former / name)
        self.build(self._former, code_version="0")

    def build(self, folder: Path, **changes: str) -> None:
        workspace = Workspace.open(folder, str(self._world.catalog))
        for asset, partition in self._artefacts:
            plan = GATED[asset].build_plan(workspace, partition, NO_PROGRESS)
            published = build(workspace.root, replace(plan, **changes))
            if asset == "packages/split":
                record_latest(workspace, plan, published)

    def copy_root(self, folder: Path) -> Path:
        return Path(shutil.copytree(self._former, folder, symlinks=True))

    def versions(self, folder: Path) -> list[str]:
        """Return the code versions that readers get, every byte checked."""
        workspace = Workspace.open(folder, str(self._world.catalog))
        found = []
        for asset, partition in self._artefacts:
            location = GATED[asset].location(workspace, partition)
            found.append(open_input(workspace.root, ArtefactId(asset, partition), location).manifest.code_version)
        return found


@pytest.fixture(params=ACTIONS)
def builder(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Builder:
    # The files of a copy count as settled at once: else each build records as many digests as it is slow.
    for name in ("_TICK_NS", "_COARSE_NS"):
        monkeypatch.setattr(digests, name, 0)
    # What a killed process did not rename is garbage at once, not after an hour.
    monkeypatch.setattr(inventory, "_UNFINISHED_AFTER_S", 0.0)
    return Builder(copied_world(tmp_path_factory, tmp_path_factory.mktemp("builds") / "world"), request.param)


def install(patch: pytest.MonkeyPatch, at_call: AtCall) -> None:
    """Report calls into the file system, and the writes of Parquet, which Python does not see."""
    file_layer.install(patch, at_call)
    for name in ("write_table", "write_batch", "close"):
        real = getattr(pq.ParquetWriter, name)

        def call(*given: object, _real: Callable[..., object] = real, **more: object) -> object:
            at_call(None)
            return _real(*given, **more)

        patch.setattr(pq.ParquetWriter, name, call)


def kinds_of_calls(action: Callable[[], object], folder: Path) -> list[str]:
    """Return what each call of an action does, in order: its name and its file, without numbers and digests."""

    def run() -> list[str]:
        found: list[str] = []

        def at_call(call: Call | None) -> bool:
            target = "parquet" if call is None else call.other or call.target
            path = str(Path(f"/proc/self/fd/{target}").readlink() if isinstance(target, int) else target)
            found.append(f"{call and call.name} {_NUMBER.sub('#', path.removeprefix(str(folder)))}")
            return False

        with pytest.MonkeyPatch.context() as patch:
            install(patch, at_call)
            action()
        return found

    return result_of(run)


def everything(folder: Path) -> dict[str, bytes | str]:
    root = Root(folder)
    collect_garbage(root)
    return picture(root)


def test_killed_at_each_kind_of_call_and_at_random(builder: Builder, tmp_path: Path) -> None:
    undisturbed = builder.copy_root(tmp_path / "undisturbed")
    kinds = kinds_of_calls(lambda: builder.build(undisturbed), undisturbed)
    current, whole = builder.versions(undisturbed), everything(undisturbed)
    numbers = sorted({kind: number for number, kind in reversed([*enumerate(kinds)])}.values())
    if builder.which == "release":
        # The last calls are those behind the audit's publication.
        numbers = sorted({*random.Random(1).sample(range(len(kinds)), _AT_RANDOM), *range(len(kinds) - 3, len(kinds))})
    died, folder = 0, tmp_path / "root"
    former = builder.versions(builder.copy_root(folder))
    seen = {tuple(former)}
    for number in numbers:
        shutil.rmtree(folder)
        builder.copy_root(folder)
        died += killed_at(number, lambda: builder.build(folder), install)
        versions = builder.versions(folder)
        seen.add(tuple(versions))
        assert all(one in both for one, *both in zip(versions, former, current, strict=True)), kinds[number]
        assert not any(finding.is_fault for finding in verify_root(Root(folder))), kinds[number]
        builder.build(folder)
        assert everything(folder) == whole, f"after the kill at {kinds[number]}"
    # The order of threads may move the last calls behind the end.
    assert died >= 0.95 * len(numbers)
    assert tuple(current) in seen
    assert any(kind.startswith("link ") and "/pieces/" in kind for kind in kinds) == (builder.which in LINKED)
