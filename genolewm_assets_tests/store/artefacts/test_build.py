from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from genolewm_assets.errors import (
    BusyError,
    ChecksumError,
    ConfigurationError,
    CorruptResourceError,
    FetchError,
    MissingResourceError,
    ResourceError,
    RootError,
    VcfError,
)
from genolewm_assets.store.artefacts.build import BuildPlan, BuildRejectedError, BuildReport, build, is_current
from genolewm_assets.store.artefacts.manifest import InputRef
from genolewm_assets.store.artefacts.published import ArtefactId
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.files.atomic import remove_tree
from genolewm_assets.store.files.generations import resolve_generation
from genolewm_assets_tests.heard import Heard
from genolewm_assets_tests.worlds.store import plans
from genolewm_assets_tests.worlds.store.plans import CONTENT, LOCATION, failing_plan, flip, make_plan

pytestmark = pytest.mark.disk


def no_work_left(root: Root) -> bool:
    return root.leftovers(LOCATION) == []


def test_a_build_is_published_with_its_manifest(root: Root) -> None:
    published = build(root, make_plan(), run_id="run-7")
    assert not published.reused
    assert published.directory == resolve_generation(root.path / LOCATION)
    assert {name: published.file(name).read_bytes() for name in CONTENT} == CONTENT
    manifest = json.loads((published.directory / "manifest.json").read_bytes())
    assert manifest["asset"] == "gnomad/shard"
    assert manifest["partition"] == "chr21"
    assert manifest["counts"] == {"files": 3}
    assert [(f["path"], f["size_bytes"], f["rows"]) for f in manifest["files"]] == [
        ("rejects.bin", 5, 5),
        ("sub/extra.bin", 1, 1),
        ("variants.bin", 10240, 10240),
    ]
    figures = {"bad": [1, 2], "share": 0.25}
    assert manifest["checks"][0] == {"name": "content_is_right", "passed": True, "figures": figures}
    assert published.directory.name == f"chr21.{published.manifest.sha256[:12]}"
    assert published.ref == InputRef("gnomad/shard", "chr21", published.manifest.sha256)
    assert json.loads((published.directory / "provenance.json").read_bytes())["run_id"] == "run-7"
    assert no_work_left(root)


def test_the_same_build_gives_the_same_bytes_in_any_folder(tmp_path: Path) -> None:
    shuffled = make_plan(dict(reversed(CONTENT.items())))
    roots = [Root(tmp_path / "a"), Root(tmp_path / "deeper" / "b")]
    for root, plan in zip(roots, [make_plan(), shuffled], strict=True):
        build(root, plan)
    assert plans.picture(roots[0]) == plans.picture(roots[1])
    manifest = (roots[1].path / LOCATION / "manifest.json").read_bytes()
    assert str(tmp_path).encode() not in manifest
    assert os.uname().nodename.encode() not in manifest


def test_an_intact_build_of_the_same_recipe_is_reused(root: Root) -> None:
    calls: list[Path] = []
    plan = make_plan(before_write=calls.append)
    first = build(root, plan)
    again = build(root, plan)
    assert (len(calls), again.reused) == (1, True)
    assert (again.directory, again.manifest) == (first.directory, first.manifest)


GENOME = InputRef("reference/genome", None, "a" * 64)


@pytest.mark.parametrize(
    "other",
    [
        make_plan(code_version="2"),
        make_plan(recipe={"min_af": 0.02}),
        make_plan(inputs=(GENOME,)),
        make_plan(artefact=ArtefactId("gnomad/shard", "chr20")),
        make_plan(artefact=ArtefactId("gnomad/shard")),
    ],
)
def test_anything_else_in_the_recipe_builds_anew(root: Root, other: BuildPlan) -> None:
    former = build(root, make_plan())
    assert not is_current(root, other)
    assert not build(root, other).reused
    assert is_current(root, other)
    assert former.file("variants.bin").read_bytes() == CONTENT["variants.bin"]


def test_order_of_inputs_and_tuples_in_the_recipe_do_not_matter(root: Root) -> None:
    other = InputRef("clinvar/shard", "2026-02-26", "b" * 64)
    build(root, make_plan(recipe={"x": (1, 2)}, inputs=(GENOME, other)))
    assert build(root, make_plan(recipe={"x": [1, 2]}, inputs=(other, GENOME))).reused


def test_is_current_sees_what_is_cheap_to_see(root: Root) -> None:
    plan = make_plan()
    assert not is_current(root, plan)
    published = build(root, plan)
    for damage in (
        lambda: os.truncate(published.file("variants.bin"), 10_241),
        lambda: published.file("sub/extra.bin").unlink(),
        lambda: flip(published.directory / "manifest.json", 3),
        (root.path / LOCATION).unlink,
    ):
        assert is_current(root, plan)
        damage()
        assert not is_current(root, plan)
        build(root, plan)


def test_failed_checks_reject_the_build_and_the_last_good_version_stays(root: Root) -> None:
    build(root, make_plan())
    before = plans.picture(root)
    with pytest.raises(BuildRejectedError, match=r"gnomad/shard\[chr21\]: the build failed its checks") as raised:
        build(root, make_plan({"variants.bin": b"wrong"}, code_version="2", passed=False))
    assert [check.name for check in raised.value.checks] == ["content_is_right"]
    assert raised.value.checks[0].figures == {"share": 0.25, "bad": [1, 2]}
    assert "['content_is_right'] (content_is_right: bad [1, 2], share 0.25) and was not published" in str(raised.value)
    assert plans.picture(root) == before
    rejected = root.path / "rejected" / LOCATION
    assert (rejected / "variants.bin").read_bytes() == b"wrong"
    assert json.loads((rejected / "manifest.json").read_bytes())["checks"][0]["passed"] is False
    assert not is_current(root, make_plan())
    assert no_work_left(root)


def test_the_checks_cross_a_process_border(root: Root) -> None:
    with pytest.raises(BuildRejectedError) as raised:
        build(root, make_plan(passed=False))
    copy = pickle.loads(pickle.dumps(raised.value))
    assert isinstance(copy, BuildRejectedError)
    assert (copy.checks, str(copy)) == (raised.value.checks, str(raised.value))


def test_an_error_raised_on_purpose_rejects_the_build_and_is_raised_again(root: Root) -> None:
    build(root, make_plan())
    before = plans.picture(root)
    with pytest.raises(VcfError, match=r"in\.vcf:3: is malformed\. Correct it\."):
        build(root, failing_plan())
    rejected = root.path / "rejected" / LOCATION
    failure = {"artefact": "gnomad/shard[chr21]", "error": "VcfError", "message": "in.vcf:3: is malformed. Correct it."}
    assert json.loads((rejected / "failure.json").read_bytes()) == failure
    assert (rejected / "half.bin").read_bytes() == b"half"
    assert plans.picture(root) == before
    assert no_work_left(root)


def test_a_marker_made_by_hand_counts_and_is_cleared(root: Root) -> None:
    plan = make_plan()
    build(root, plan)
    (root.path / "rejected" / LOCATION / "notes").mkdir(parents=True)
    assert not is_current(root, plan)
    with pytest.raises(VcfError):
        build(root, failing_plan())
    assert (root.path / "rejected" / LOCATION).is_symlink()
    build(root, plan)
    assert is_current(root, plan)


FULL = FetchError("https://x/y.vcf.gz", "download failed")
FULL.__cause__ = OSError(28, "No space left on device")
BLAMELESS = (BusyError("sample", "another process is writing it"), FULL, FetchError("https://x/y.vcf.gz", "timed out"))


@pytest.mark.parametrize(
    "error", [KeyError("bug"), KeyboardInterrupt(), SystemExit(1), FileNotFoundError(2, "gone"), *BLAMELESS]
)
def test_what_says_nothing_about_the_content_leaves_nothing_behind(root: Root, error: BaseException) -> None:
    build(root, make_plan())
    before = plans.picture(root)

    def fail(directory: Path) -> None:
        (directory / "half.bin").write_bytes(b"half")
        raise error

    with pytest.raises(type(error)) as raised:
        build(root, make_plan(code_version="2", before_write=fail))
    assert raised.value is error
    assert plans.picture(root) == before
    assert is_current(root, make_plan())
    assert no_work_left(root)


def test_another_content_than_published_marks_it_rejected(root: Root) -> None:
    def altered(_: Path) -> None:
        raise ChecksumError("https://x/y.vcf.gz", "MD5 of the download differs")

    build(root, make_plan())
    with pytest.raises(ChecksumError):
        build(root, make_plan(code_version="2", before_write=altered))
    assert root.is_rejected(LOCATION)


def test_the_reason_of_the_failure_survives_when_it_cannot_be_kept(root: Root, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    def fail(_: Path) -> None:
        monkeypatch.setattr(os, "fsync", full)
        raise VcfError("in.vcf:3", "is malformed")

    with pytest.raises(VcfError, match="is malformed") as raised:
        build(root, make_plan(before_write=fail))
    assert "could not be kept" in raised.value.__notes__[0]
    assert no_work_left(root)


@pytest.mark.parametrize("make", [lambda x: x.symlink_to("/etc/hostname"), lambda x: x.symlink_to("/etc"), os.mkfifo])
def test_a_build_may_leave_regular_files_only(root: Root, make: Callable[[Path], object]) -> None:
    with pytest.raises(CorruptResourceError, match="not a regular file"):
        build(root, make_plan(before_write=lambda directory: make(directory / "x")))
    assert not (root.path / LOCATION).exists()


def test_reserved_names_and_rows_of_files_not_written_are_refused(root: Root) -> None:
    with pytest.raises(CorruptResourceError, match="file name not allowed"):
        build(root, make_plan({"sub/manifest.json": b""}))
    with pytest.raises(CorruptResourceError, match=r"rows of a file that it did not write.*gone\.parquet"):
        build(root, replace(make_plan(), write=lambda _: BuildReport(rows={"gone.parquet": 1})))
    with pytest.raises(ConfigurationError, match="rows"):
        build(root, replace(make_plan(), write=_rows_as_float))


def _rows_as_float(directory: Path) -> BuildReport:
    plans.write_files(directory, {"a": b""})
    return BuildReport(rows={"a": 1.5})  # type: ignore[dict-item]


def test_an_occupied_location_is_refused_before_any_work(root: Root) -> None:
    (root.path / LOCATION).mkdir(parents=True)
    calls: list[Path] = []
    with pytest.raises(CorruptResourceError, match="is in the place of the published link"):
        build(root, make_plan(before_write=calls.append))
    assert calls == []
    with pytest.raises(RootError):
        build(root, make_plan(location="../outside"))
    with pytest.raises(RootError):
        is_current(root, make_plan(location="../outside"))


def test_a_recipe_that_is_not_json_is_refused(root: Root) -> None:
    with pytest.raises(ConfigurationError, match="cannot be written as JSON"):
        build(root, make_plan(recipe={"x": float("nan")}))


IN_THE_WAY: dict[str, Callable[[Path], object]] = {
    "file": Path.touch,
    "folder": Path.mkdir,
    "link": lambda path: path.symlink_to("/etc/hostname"),
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "link to a folder": lambda path: path.symlink_to(path.parent),
}
_WORK = "work/gnomad~4.1~chr21"


@pytest.mark.parametrize(
    ("name", "what"),
    [
        *((f"{_WORK}/lock", what) for what in ("folder", "link", "link to nothing")),
        *((name, what) for name in ("work", _WORK, "gnomad/4.1/.gen") for what in sorted(set(IN_THE_WAY) - {"folder"})),
    ],
)
def test_what_is_in_the_way_of_a_lock_or_of_generations_is_named(root: Root, name: str, what: str) -> None:
    path = root.path / name
    path.parent.mkdir(parents=True)
    IN_THE_WAY[what](path)
    with pytest.raises(ResourceError) as raised:
        build(root, make_plan())
    assert raised.value.where == str(path)
    assert os.path.lexists(path)
    remove_tree(path)
    assert not build(root, make_plan()).reused


def test_a_build_inside_a_build_of_the_same_location_is_busy_not_deadlocked(root: Root) -> None:
    with pytest.raises(BusyError, match=LOCATION):
        build(root, make_plan(before_write=lambda _: build(root, make_plan(), lock_wait_s=0.1)))


def test_an_empty_artefact_is_an_artefact(root: Root) -> None:
    published = build(root, make_plan({}, recipe={}))
    assert published.manifest.files == ()
    assert build(root, make_plan({}, recipe={})).reused
    for name in ("variants.bin", "manifest.json", "../x"):
        with pytest.raises(MissingResourceError, match="the manifest does not list this file"):
            published.file(name)


def test_progress_counts_the_bytes_hashed(root: Root) -> None:
    seen = Heard()
    build(root, make_plan(), progress=seen)
    build(root, make_plan(), progress=seen)
    assert [s for s in seen if s[0] == s[1]] == [(10246, 10246, "bytes hashed")] * 2
