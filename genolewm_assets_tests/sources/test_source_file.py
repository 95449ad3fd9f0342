"""Sources of a catalogue: local ones in place, remote ones downloaded, verified and gone after use."""

from __future__ import annotations

import hashlib
from pathlib import Path

import fsspec
import pytest

from genolewm_assets.errors import FetchError, InputError
from genolewm_assets.sources.source_file import PUBLISHED, SourceFile

CONTENT = b"ACGT" * 1000
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture
def remote() -> str:
    """Return the URL of a file with a published MD5 on a server of the process's own (fsspec's memory)."""
    memory = fsspec.filesystem("memory")
    memory.pipe("/server/file.vcf.gz", CONTENT)
    memory.pipe("/server/file.vcf.gz.md5", f"{MD5}  file.vcf.gz\n".encode())
    return "memory://server/file.vcf.gz"


def test_local_file_is_read_in_place(tmp_path: Path) -> None:
    path = tmp_path / "file.vcf.gz"
    path.write_bytes(CONTENT)
    source = SourceFile(str(path), None, tmp_path / "downloads")
    assert source.identity() == {"file": "file.vcf.gz", "md5": MD5}
    with source.local() as local:
        assert local.path == path
        assert local.checksum_check().passed
    assert path.is_file()
    assert not (tmp_path / "downloads").exists()


def test_local_file_that_differs_from_its_published_md5_fails_its_check(tmp_path: Path) -> None:
    path = tmp_path / "file.vcf.gz"
    path.write_bytes(CONTENT[:-1])
    path.with_name("file.vcf.gz.md5").write_text(MD5)
    with SourceFile(str(path), PUBLISHED, tmp_path).local() as local:
        check = local.checksum_check()
    assert not check.passed
    assert check.figures["published_md5"] == MD5


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: None])
def test_what_is_no_file_is_named(make: object, tmp_path: Path) -> None:
    path = tmp_path / "file"
    make(path)  # type: ignore[operator]
    with pytest.raises(InputError, match="expected a file"):
        SourceFile(str(path), None, tmp_path).identity()


def test_remote_file_is_downloaded_used_and_removed(remote: str, tmp_path: Path) -> None:
    source = SourceFile(remote, PUBLISHED, tmp_path)
    assert source.identity() == {"file": "file.vcf.gz", "md5": MD5}
    with source.local() as local:
        assert local.path.read_bytes() == CONTENT
        assert local.checksum_check().passed
    assert not list(tmp_path.rglob("*.vcf.gz"))


def test_download_whose_use_failed_is_found_again(remote: str, tmp_path: Path) -> None:
    source = SourceFile(remote, PUBLISHED, tmp_path)
    with pytest.raises(ZeroDivisionError), source.local():
        raise ZeroDivisionError
    fsspec.filesystem("memory").pipe("/server/file.vcf.gz", b"gone")
    with source.local() as local:
        assert local.path.read_bytes() == CONTENT


def test_download_with_a_wrong_checksum_is_refused_and_removed(remote: str, tmp_path: Path) -> None:
    fsspec.filesystem("memory").pipe("/server/file.vcf.gz", CONTENT[:-7])
    with pytest.raises(FetchError, match="MD5"), SourceFile(remote, PUBLISHED, tmp_path).local():
        pytest.fail("a wrong file was lent")
    assert not list(tmp_path.rglob("file.vcf.gz*"))


def test_remote_file_without_a_published_md5_is_known_by_what_the_server_says(remote: str, tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    before = SourceFile(remote, None, tmp_path).identity()
    memory.pipe("/server/file.vcf.gz", CONTENT * 2)
    assert SourceFile(remote, None, tmp_path).identity() != before
