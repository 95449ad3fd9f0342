"""Kill -9 at every call that changes the disk: readers see before or after, and the next run ends as undisturbed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from genolewm_assets.errors import MissingResourceError, VcfError
from genolewm_assets.progress import NO_PROGRESS, ByteCount
from genolewm_assets.store.artefacts.build import BuildPlan, BuildRejectedError, build, is_current
from genolewm_assets.store.artefacts.gc import collect_garbage
from genolewm_assets.store.artefacts.inputs import open_input
from genolewm_assets.store.artefacts.manifest import read_manifest
from genolewm_assets.store.artefacts.published import ArtefactId, find_damage
from genolewm_assets.store.artefacts.rejected import rejection_reason
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.verify import verify_root
from genolewm_assets.store.files.generations import resolve_generation
from genolewm_assets_tests.faults.kill_points import KillPoints
from genolewm_assets_tests.worlds.store.plans import (
    ARTEFACT,
    CONTENT,
    LOCATION,
    failing_plan,
    flip,
    make_plan,
    new_root,
    picture,
)

pytestmark = [pytest.mark.usefixtures("no_syncs")]

OLD = make_plan()
NEW = make_plan({"variants.bin": b"new", "other.bin": b"o"}, code_version="2")
REJECTED = make_plan({"variants.bin": b"bad"}, code_version="3", passed=False)


def attempt(root: Root, plan: BuildPlan) -> None:
    with suppress(BuildRejectedError, VcfError):
        build(root, plan)


def state(root: Root, location: str = LOCATION) -> tuple[str | None, str | None]:
    """Published version, fully re-hashed, and reason of the rejection that its readers would be told."""
    reason = rejection_reason(root, location) if root.is_rejected(location) else None
    try:
        directory = resolve_generation(root.link_of(location))
    except MissingResourceError:
        return None, reason
    manifest = read_manifest(directory)
    assert list(find_damage(directory, manifest, ByteCount(NO_PROGRESS, 0))) == []
    return manifest.code_version, reason


def run_scenario(
    tmp_path: Path,
    before: Callable[[Root], object],
    action: Callable[[Root], object],
    allowed: set[tuple[str | None, str | None]],
    kill_points: KillPoints,
) -> int:
    """Kill ``action`` everywhere; check what readers see, then that running it again gives an undisturbed root."""
    undisturbed = new_root(tmp_path / "undisturbed")
    before(undisturbed)
    action(undisturbed)
    collect_garbage(undisturbed)
    roots: list[Root] = []

    def prepare() -> Callable[[], object]:
        roots.append(new_root(tmp_path / str(len(roots)), lock_wait_s=0))
        before(roots[-1])
        return lambda: action(roots[-1])

    seen = set()
    for point in kill_points(prepare, lambda: roots[-1].path):
        root = roots[-1]
        seen.add(state(root))
        assert seen <= allowed, f"after the kill at call {point}"
        assert not any(finding.is_fault for finding in verify_root(root))
        action(root)
        assert state(root) == state(undisturbed)
        collect_garbage(root)
        assert picture(root) == picture(undisturbed), f"after the kill at call {point}"
        assert not any(root.leftovers(location) for location in root.locations_at_work())
    assert seen == allowed, "a state that should be seen was never reached"
    return kill_points.last


BAD = "failed checks ['content_is_right'] (content_is_right: bad [1, 2], share 0.25)"
MALFORMED = "in.vcf:3: is malformed. Correct it."


def test_first_build(tmp_path: Path, kill_points: KillPoints) -> None:
    before, action = (lambda root: None), (lambda root: attempt(root, NEW))
    assert run_scenario(tmp_path, before, action, {(None, None), ("2", None)}, kill_points) > 20


def test_rebuild(tmp_path: Path, kill_points: KillPoints) -> None:
    before, action = (lambda root: attempt(root, OLD)), (lambda root: attempt(root, NEW))
    assert run_scenario(tmp_path, before, action, {("1", None), ("2", None)}, kill_points) > 20


def test_rebuild_of_bytes_that_an_older_generation_holds(tmp_path: Path, kill_points: KillPoints) -> None:
    def before(root: Root) -> None:
        attempt(root, OLD)
        attempt(root, NEW)

    assert run_scenario(tmp_path, before, lambda root: attempt(root, OLD), {("2", None), ("1", None)}, kill_points) > 20


@pytest.mark.parametrize(("plan", "reason"), [(REJECTED, BAD), (failing_plan(), MALFORMED)], ids=["checks", "error"])
def test_build_that_is_rejected(tmp_path: Path, kill_points: KillPoints, plan: BuildPlan, reason: str) -> None:
    before, action = (lambda root: attempt(root, OLD)), (lambda root: attempt(root, plan))
    assert run_scenario(tmp_path, before, action, {("1", None), ("1", reason)}, kill_points) > 20


def test_rejection_after_a_rejection_leaves_no_moment_without_a_marker(tmp_path: Path, kill_points: KillPoints) -> None:
    def before(root: Root) -> None:
        attempt(root, OLD)
        attempt(root, failing_plan())

    run_scenario(tmp_path, before, lambda root: attempt(root, REJECTED), {("1", MALFORMED), ("1", BAD)}, kill_points)


def test_success_after_a_rejection_never_shows_the_old_version_as_good(tmp_path: Path, kill_points: KillPoints) -> None:
    def before(root: Root) -> None:
        attempt(root, OLD)
        attempt(root, REJECTED)

    run_scenario(tmp_path, before, lambda root: attempt(root, NEW), {("1", BAD), ("2", BAD), ("2", None)}, kill_points)


def test_reuse_after_a_rejection(tmp_path: Path, kill_points: KillPoints) -> None:
    def before(root: Root) -> None:
        attempt(root, OLD)
        attempt(root, REJECTED)

    run_scenario(tmp_path, before, lambda root: attempt(root, OLD), {("1", BAD), ("1", None)}, kill_points)


def test_garbage_collection(tmp_path: Path, kill_points: KillPoints) -> None:
    def before(root: Root) -> None:
        pinned = build(root, make_plan(code_version="0"))
        package = make_plan({}, artefact=ArtefactId("packages/split"), location="packages/R/x", inputs=(pinned.ref,))
        build(root, package)
        build(root, OLD)
        build(root, NEW)

    run_scenario(tmp_path, before, collect_garbage, {("2", None)}, kill_points)


def test_claiming_a_root(tmp_path: Path, kill_points: KillPoints) -> None:
    roots: list[Root] = []

    def prepare() -> Callable[[], object]:
        roots.append(Root(tmp_path / str(len(roots)), lock_wait_s=0))
        return lambda: roots[-1].claim("sample", "a" * 64)

    for _ in kill_points(prepare, lambda: roots[-1].path):
        roots[-1].claim("sample", "a" * 64)
        assert [p.name for p in sorted(roots[-1].path.iterdir())] == ["root.json", "work"]
    assert kill_points.last >= 4


def test_healing_a_damaged_generation_never_makes_it_worse(tmp_path: Path, kill_points: KillPoints) -> None:
    roots: list[Root] = []

    def prepare() -> Callable[[], object]:
        roots.append(new_root(tmp_path / str(len(roots)), lock_wait_s=0))
        published = build(roots[-1], OLD)
        flip(published.file("variants.bin"), 77)
        published.file("rejects.bin").unlink()
        return lambda: build(roots[-1], OLD)

    for point in kill_points(prepare, lambda: roots[-1].path):
        root = roots[-1]
        directory = resolve_generation(root.path / LOCATION)
        assert (directory / "sub" / "extra.bin").read_bytes() == CONTENT["sub/extra.bin"], point
        assert (directory / "variants.bin").stat().st_size == len(CONTENT["variants.bin"]), point
        rejects = directory / "rejects.bin"
        assert not rejects.exists() or rejects.read_bytes() == CONTENT["rejects.bin"], point
        build(root, OLD)
        assert is_current(root, OLD)
        assert verify_root(root) == []
    assert kill_points.last >= 20


def test_surface_links_lead_to_one_version_at_every_moment(tmp_path: Path, kill_points: KillPoints) -> None:
    location = "clinvar/R/shard"
    old = make_plan({"a.bin": b"1", "b.bin": b"1"}, location=location, surface=True)
    new = make_plan({"a.bin": b"2", "c.bin": b"2"}, location=location, surface=True, code_version="2")
    roots: list[Root] = []

    def prepare() -> Callable[[], object]:
        roots.append(new_root(tmp_path / str(len(roots)), lock_wait_s=0))
        build(roots[-1], old)
        return lambda: build(roots[-1], new)

    for _ in kill_points(prepare, lambda: roots[-1].path):
        folder = roots[-1].path / "clinvar" / "R"
        version = open_input(roots[-1], ARTEFACT, location).manifest.code_version
        shown = {p.name: p.read_bytes() for p in folder.glob("*.bin") if p.exists()}
        assert set(shown.values()) == {version.encode()}
        build(roots[-1], new)
        assert {p.name: p.read_bytes() for p in folder.glob("*.bin")} == {"a.bin": b"2", "c.bin": b"2"}
        assert is_current(roots[-1], new)
        assert verify_root(roots[-1]) == []
    assert kill_points.last >= 20
