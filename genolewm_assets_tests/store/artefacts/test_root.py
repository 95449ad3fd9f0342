from __future__ import annotations

import errno
import json
import os
import re
import threading
from pathlib import Path

import pytest

from genolewm_assets.errors import BusyError, FetchError, ResourceError, RootError, VcfError
from genolewm_assets.store.artefacts.root import Root

GENOME, OTHER = "a" * 64, "b" * 64


def test_a_root_is_claimed_once_and_recognised_again(root: Root) -> None:
    root.claim("sample", GENOME)
    before = (root.path / "root.json").read_bytes()
    root.claim("sample", GENOME)
    assert (root.path / "root.json").read_bytes() == before
    document = {"catalog": "sample", "genome_digest": GENOME, "schema": "genolewm.root", "schema_version": "1.0"}
    assert json.loads(before) == document


@pytest.mark.parametrize(("catalog", "digest", "what"), [("grch38", GENOME, "catalog"), ("sample", OTHER, "genome")])
def test_another_catalogue_or_genome_is_refused(root: Root, catalog: str, digest: str, what: str) -> None:
    root.claim("sample", GENOME)
    with pytest.raises(RootError, match=f"belongs to another {what}.*expected .*, got .*GENOLEWM_ROOT"):
        root.claim(catalog, digest)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"\xff\xfe", b'{"catalog": "sample"}'])
def test_a_damaged_claim_is_refused_and_kept(root: Root, raw: bytes) -> None:
    root.path.mkdir()
    (root.path / "root.json").write_bytes(raw)
    with pytest.raises(RootError):
        root.claim("sample", GENOME)
    assert (root.path / "root.json").read_bytes() == raw


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(RootError, match="not a folder"):
        Root(tmp_path / "f").claim("sample", GENOME)


def test_of_many_that_claim_at_once_one_wins(root: Root) -> None:
    refused: list[str] = []

    def claim(catalog: str) -> None:
        try:
            Root(root.path).claim(catalog, GENOME)
        except RootError:
            refused.append(catalog)

    threads = [threading.Thread(target=claim, args=(f"c{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    owner = json.loads((root.path / "root.json").read_bytes())["catalog"]
    assert sorted([*refused, owner]) == [f"c{n}" for n in range(6)]


def test_relative_and_linked_roots_are_the_same_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to("real")
    monkeypatch.chdir(tmp_path)
    assert Root(Path("real")) == Root(tmp_path / "alias") == Root(tmp_path / "real")


@pytest.mark.parametrize("path", ["/etc", "../x", "a/../../b", "", "a//b", ".", "a/.", "a\x00", "a\\b"])
def test_paths_outside_are_refused(root: Root, path: str) -> None:
    with pytest.raises(RootError, match="path not allowed"):
        root.path_of(path)


@pytest.mark.parametrize(
    "location", ["work/x", "rejected/x", "dagster/x", "root.json", ".gen/x", "a/.gen", "a~b", "x" * 201, "é" * 101]
)
def test_locations_that_the_store_keeps_or_cannot_name_are_refused(root: Root, location: str) -> None:
    with pytest.raises(RootError, match="cannot be published at this location"):
        root.link_of(location)


@pytest.mark.parametrize(
    "location", ["gnomad/4.1/chr21", "clinvar/2026-02-26.2/shard", "a", "forensic/Run 7 (B)", "HLA-A*01:01"]
)
def test_locations_people_use(root: Root, location: str) -> None:
    assert root.link_of(location) == root.path / location


def test_a_location_below_a_link_or_a_file_is_refused(root: Root, tmp_path: Path) -> None:
    root.path.mkdir()
    (root.path / "gnomad").symlink_to(tmp_path)
    (root.path / "windows").write_bytes(b"")
    for location in ("gnomad/4.1/chr21", "windows/default/chr21"):
        with pytest.raises(RootError, match=r"is a link or file, but .* needs a folder here"):
            root.link_of(location)


def test_a_held_lock_names_the_location_and_the_wait(root: Root) -> None:
    busy = pytest.raises(BusyError, match=r"root/a/b: another process .* 0\.1 s")
    with root.lock("a/b"), busy as raised, root.lock("a/b", wait_s=0.1):
        pass
    assert raised.value.exit_code == 4


def test_locks_of_different_locations_are_independent_even_where_names_are_alike(root: Root) -> None:
    with root.lock("a/b"), root.lock("a/c"), root.lock("a"), root.lock("a/b/c"):
        assert root.locations_at_work() == ["a", "a/b", "a/b/c", "a/c"]
        assert root.is_locked("a/b")
    assert not root.is_locked("a/b")
    assert not root.is_locked("never/seen")


def test_a_waiter_gets_the_lock_when_it_is_released(root: Root) -> None:
    holding, got = threading.Event(), threading.Event()

    def hold() -> None:
        with root.lock("a"):
            holding.set()
            got.wait(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    assert holding.wait(5)
    with root.lock("a", wait_s=10):
        got.set()
    thread.join()


def test_sweeping_takes_work_of_this_location_only(root: Root) -> None:
    with root.lock("a/b"), root.lock("a") as lease:
        mine, other = root.work_dir("a"), root.work_dir("a/b")
        (mine / "sub").mkdir()
        (root.path / "work" / "a" / "stray").write_bytes(b"")
        assert len(root.leftovers("a")) == 2
        root.sweep("a", lease)
        assert root.leftovers("a") == []
        assert other.is_dir()


def test_folders_in_work_that_the_store_did_not_make_are_left_alone(root: Root) -> None:
    (root.path / "work" / ".ipynb_checkpoints").mkdir(parents=True)
    assert root.locations_at_work() == []


def test_a_work_directory_has_the_mode_of_an_ordinary_folder(root: Root) -> None:
    mask = os.umask(0o022)
    try:
        assert root.work_dir("a").stat().st_mode & 0o777 == 0o755
    finally:
        os.umask(mask)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EXDEV])
def test_storage_failures_say_what_to_do(root: Root, code: int) -> None:
    refused = pytest.raises(ResourceError, match=r"root/a/b: the storage refused .*published artefacts are unchanged")
    with refused, root.storage_errors("a/b"):
        raise OSError(code, os.strerror(code))


def test_permission_errors_are_storage_failures_only_inside_the_root(root: Root) -> None:
    with pytest.raises(ResourceError, match="Make the root writable"), root.storage_errors("a"):
        raise PermissionError(errno.EACCES, "Permission denied", str(root.path / "work"))


def test_a_failing_disk_is_told_of_whatever_the_call_knew_of_the_file(root: Root) -> None:
    for named, message in {
        (): "root/a: reading or writing failed (Input/output error). Check the disk",
        (str(root.path.parent),): "root/a: the storage refused to write (Input/output error). Check the disk",
        (".gen/x", None, str(root.path / ".gen" / "x.link")): "root/a: the storage refused to write",
    }.items():
        with pytest.raises(ResourceError, match=re.escape(message)), root.storage_errors("a"):
            raise OSError(errno.EIO, "Input/output error", *named)


def test_a_root_that_is_gone_is_told_from_a_file_that_is_missing_in_it(root: Root) -> None:
    with root.lock("a"), pytest.raises(FileNotFoundError), root.storage_errors("a"):
        (root.path / "x").read_bytes()
    root.path.rename(root.path.with_name("away"))
    with pytest.raises(ResourceError, match="root: was removed or moved while it was in use"), root.storage_errors("a"):
        (root.path / "x").read_bytes()


def test_other_errors_pass_unchanged(root: Root) -> None:
    elsewhere = [OSError(code, os.strerror(code), "/elsewhere/in.vcf") for code in (errno.EACCES, errno.EIO)]
    missing = FileNotFoundError(errno.ENOENT, "No such file")
    for error in (missing, KeyError("x"), VcfError("f", "bad"), FetchError("u", "x"), *elsewhere):
        with pytest.raises(type(error)) as raised, root.storage_errors("a"):
            raise error
        assert raised.value is error


def test_a_full_disk_is_recognised_behind_the_error_it_caused(root: Root) -> None:
    wrapped = FetchError("url", "download failed")
    wrapped.__cause__ = OSError(errno.ENOSPC, "No space left on device")
    assert root.is_storage_error(wrapped)
    assert not root.is_storage_error(FetchError("url", "checksum differs"))
    assert not root.is_storage_error(None)
