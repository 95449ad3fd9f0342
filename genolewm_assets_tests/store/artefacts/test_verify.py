from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from genolewm_assets.errors import (
    CorruptResourceError,
    MissingResourceError,
    RejectedResourceError,
    RootError,
    VcfError,
)
from genolewm_assets.store.artefacts.build import build
from genolewm_assets.store.artefacts.inputs import open_input
from genolewm_assets.store.artefacts.published import ArtefactId, Published
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.store.artefacts.verify import Finding, FindingKind, verify_root
from genolewm_assets_tests.heard import Heard
from genolewm_assets_tests.worlds.store.plans import ARTEFACT, CONTENT, LOCATION, failing_plan, flip, make_plan, picture

WINDOWS = ArtefactId("windows/index", "chr21")


@pytest.fixture
def root(root: Root) -> Root:
    root.claim("sample", "a" * 64)
    return root


def build_windows(root: Root, *inputs: Published) -> Published:
    refs = tuple(published.ref for published in inputs)
    return build(root, make_plan({"w": b"w"}, artefact=WINDOWS, location="windows/default/chr21", inputs=refs))


def kinds(findings: list[Finding]) -> list[tuple[FindingKind, str, str | None]]:
    return [(f.kind, f.location, f.file) for f in findings]


def test_an_intact_root_has_no_findings(root: Root) -> None:
    build_windows(root, build(root, make_plan()))
    build(root, make_plan(location="clinvar/R/shard", surface=True, artefact=ArtefactId("clinvar/shard", "R")))
    before = picture(root)
    assert verify_root(root) == []
    assert picture(root) == before


def test_a_folder_that_is_no_root_is_refused(root: Root, tmp_path: Path) -> None:
    build(root, make_plan())
    for path in (tmp_path, tmp_path / "absent", root.path / "gnomad", root.path / "root.json"):
        with pytest.raises(MissingResourceError, match=f"{path}: not a root: expected a folder with root.json"):
            verify_root(Root(path))
    (root.path / "root.json").write_bytes(b"{")
    with pytest.raises(RootError, match="is not JSON"):
        verify_root(root)


@pytest.mark.parametrize("name", [*CONTENT, "manifest.json"])
def test_one_flipped_bit_anywhere_is_found_in_its_file(root: Root, name: str) -> None:
    directory = build(root, make_plan({**CONTENT, "variants.bin": bytes(range(40))})).directory
    build_windows(root)
    for index in range(0, (directory / name).stat().st_size, 7):
        flip(directory / name, index, bit=index % 8)
        assert kinds(verify_root(root)) == [(FindingKind.CORRUPT, LOCATION, name)]
        flip(directory / name, index, bit=index % 8)
    assert verify_root(root) == []


def test_every_kind_of_damage_in_one_root_is_listed(root: Root) -> None:
    for contig in ("chr17", "chr20", "chr21", "chrM"):
        build(root, make_plan(location=f"gnomad/4.1/{contig}", artefact=ArtefactId("gnomad/shard", contig)))
    folder = root.path / "gnomad" / "4.1"
    (folder / "chr17" / "rejects.bin").unlink()
    (folder / "chr20" / "more.bin").write_bytes(b"")
    shutil.rmtree((folder / "chr21").resolve())
    (folder / "chrM" / "sub" / "extra.bin").unlink()
    (folder / "chrM" / "sub" / "extra.bin").symlink_to("/etc/hostname")
    findings = verify_root(root)
    assert kinds(findings) == [
        (FindingKind.MISSING, "gnomad/4.1/chr17", "rejects.bin"),
        (FindingKind.CORRUPT, "gnomad/4.1/chr20", "more.bin"),
        (FindingKind.DANGLING, "gnomad/4.1/chr21", None),
        (FindingKind.CORRUPT, "gnomad/4.1/chrM", "manifest.json"),
    ]
    assert all(f.is_fault for f in findings)


def test_superseded_generations_are_read_too_since_packages_may_pin_them(root: Root) -> None:
    old = build(root, make_plan())
    build(root, make_plan(code_version="2"))
    flip(old.file("variants.bin"), 9)
    assert kinds(verify_root(root)) == [(FindingKind.CORRUPT, f"gnomad/4.1/.gen/{old.directory.name}", "variants.bin")]


def test_an_input_rebuilt_since_makes_its_consumer_stale_not_corrupt(root: Root) -> None:
    build_windows(root, build(root, make_plan()))
    new = build(root, make_plan(code_version="2"))
    (finding,) = verify_root(root)
    assert (finding.kind, finding.location, finding.is_fault) == (FindingKind.STALE, "windows/default/chr21", False)
    assert finding.got == f"manifest {new.manifest.sha256[:12]}"
    build_windows(root, new)
    assert verify_root(root) == []


def test_two_releases_of_one_partition_are_both_current(root: Root) -> None:
    old = build(root, make_plan(location="gnomad/3.0/chr21", code_version="3.0"))
    build_windows(root, old, build(root, make_plan()))
    assert verify_root(root) == []


def test_links_are_checked(root: Root, tmp_path: Path) -> None:
    build(root, make_plan(location="clinvar/R/shard", surface=True))
    folder = root.path / "clinvar" / "R"
    (folder / "gone.bin").symlink_to("shard/gone.bin")
    (folder / "out.bin").symlink_to("/etc/hostname")
    (folder / "odd").symlink_to(".gen/shard.0123456789ab")
    assert kinds(verify_root(root)) == [
        (FindingKind.DANGLING, "clinvar/R/gone.bin", None),
        (FindingKind.CORRUPT, "clinvar/R/odd", None),
        (FindingKind.CORRUPT, "clinvar/R/out.bin", None),
    ]


@pytest.mark.parametrize("target", ["{root}/gnomad/4.1/.gen/{name}", "../4.1/.gen/{name}", "./.gen/{name}", "chr20"])
def test_a_link_that_readers_refuse_is_found(root: Root, target: str) -> None:
    build(root, make_plan(location="gnomad/4.1/chr20"))
    name = build(root, make_plan()).directory.name
    link = root.path / LOCATION
    link.unlink()
    link.symlink_to(target.format(root=root.path, name=name))
    with pytest.raises(CorruptResourceError, match="is not a published link"):
        open_input(root, ARTEFACT, LOCATION)
    (finding,) = [finding for finding in verify_root(root) if finding.is_fault]
    assert (finding.kind, finding.location) == (FindingKind.CORRUPT, LOCATION)


@pytest.mark.parametrize(
    ("put", "kind"),
    [
        (lambda path: None, FindingKind.MISSING),
        (Path.touch, FindingKind.CORRUPT),
        (Path.mkdir, FindingKind.CORRUPT),
        (lambda path: path.symlink_to("../Q/shard/variants.bin"), FindingKind.CORRUPT),
        (lambda path: path.symlink_to("shard/rejects.bin"), FindingKind.CORRUPT),
    ],
)
def test_what_does_not_show_its_file_is_found(root: Root, put: Callable[[Path], object], kind: FindingKind) -> None:
    for release in "QR":
        artefact = ArtefactId("clinvar/shard", release)
        build(root, make_plan(location=f"clinvar/{release}/shard", artefact=artefact, surface=True))
    assert verify_root(root) == []
    name = root.path / "clinvar" / "R" / "variants.bin"
    name.unlink()
    put(name)
    assert kinds(verify_root(root)) == [(kind, "clinvar/R/variants.bin", None)]


def test_a_copy_that_lost_its_link_is_found(root: Root) -> None:
    directory = build(root, make_plan()).directory
    (root.path / LOCATION).unlink()
    shutil.copytree(directory, root.path / LOCATION)
    assert (FindingKind.CORRUPT, LOCATION, None) in kinds(verify_root(root))


def test_rejected_and_abandoned_work_are_told_apart_from_running_work(root: Root) -> None:
    build(root, make_plan())
    with pytest.raises(VcfError):
        build(root, failing_plan())
    with root.lock("a/running"), root.lock(LOCATION):
        left, _ = root.work_dir(LOCATION), root.work_dir("a/running")
    with root.lock("a/running"):
        findings = verify_root(root)
    abandoned = str(left.relative_to(root.path))
    assert kinds(findings) == [(FindingKind.REJECTED, LOCATION, None), (FindingKind.ABANDONED, abandoned, None)]
    assert "is malformed" in str(findings[0])
    assert not any(f.is_fault for f in findings)


def test_a_build_rejected_for_its_checks_names_them(root: Root) -> None:
    with pytest.raises(RejectedResourceError):
        build(root, make_plan(passed=False))
    assert "['content_is_right']" in str(verify_root(root)[0])


def test_progress_covers_the_whole_root(root: Root) -> None:
    seen = Heard()
    build(root, make_plan())
    build_windows(root)
    verify_root(root, progress=seen)
    assert [done for done, *_ in seen] == sorted(done for done, *_ in seen)
    assert seen[-1][:2] == (10247, 10247)
