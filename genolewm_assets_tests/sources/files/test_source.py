"""Sources of a catalogue: local ones in place, remote ones downloaded, verified and gone after use."""

from __future__ import annotations

import gzip
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest

from genolewm_assets.errors import FetchError, InputError, VcfError
from genolewm_assets.sources.files.local import (
    BGZF_END,
    Compression,
    check_local_file,
    detect_compression,
    has_bgzf_end,
)
from genolewm_assets.sources.files.source import PUBLISHED, SourceFile
from genolewm_assets_tests.servers.web_server import WebServer
from genolewm_assets_tests.worlds.sources.vcf_files import write_text

CONTENT = b"ACGT" * 1000
MD5 = hashlib.md5(CONTENT).hexdigest()


@pytest.fixture
def remote() -> str:
    """Return the URL of a file with a published MD5 on a server of the process's own (fsspec's memory)."""
    memory = fsspec.filesystem("memory")
    memory.pipe("/server/file.vcf.gz", CONTENT)
    memory.pipe("/server/file.vcf.gz.md5", f"{MD5}  file.vcf.gz\n".encode())
    return "memory://server/file.vcf.gz"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_text(tmp_path / "file.vcf.gz", CONTENT)


def test_local_file_is_read_in_place(path: Path, tmp_path: Path) -> None:
    source = SourceFile(str(path), None, tmp_path / "downloads")
    assert source.identity() == {"file": "file.vcf.gz", "md5": MD5}
    with source.local() as local:
        assert local.path == path
        assert local.checksum_check().passed
    assert path.is_file()
    assert not (tmp_path / "downloads").exists()


def test_local_file_that_differs_from_its_published_md5_fails_its_check(path: Path, tmp_path: Path) -> None:
    path.write_bytes(CONTENT[:-1])
    path.with_name("file.vcf.gz.md5").write_text(MD5)
    with SourceFile(str(path), PUBLISHED, tmp_path).local() as local:
        check = local.checksum_check()
    assert not check.passed
    assert check.figures["published_md5"] == MD5


def test_a_file_without_an_expected_md5_was_not_compared(path: Path, tmp_path: Path) -> None:
    with SourceFile(str(path), None, tmp_path).local() as local:
        said = local.checksum_check()
    assert said.passed
    assert said.figures["compared"] == 0
    assert said.figures["not_compared"] == "neither the catalogue nor the publisher states an MD5"
    with SourceFile(str(path), MD5, tmp_path).local() as local:
        assert local.checksum_check().figures["compared"] == 1


def test_the_md5_that_a_local_file_should_have_is_part_of_its_identity(path: Path, tmp_path: Path) -> None:
    published = path.with_name("file.vcf.gz.md5")
    identities = [SourceFile(str(path), pin, tmp_path).identity() for pin in (None, MD5, "0" * 32, PUBLISHED)]
    for stated in (MD5, "1" * 32):
        published.write_text(stated)
        identities.append(SourceFile(str(path), PUBLISHED, tmp_path).identity())
    bare = {"file": "file.vcf.gz", "md5": MD5}
    pins = [None, MD5, "0" * 32, None, MD5, "1" * 32]
    assert identities == [bare if pin is None else {**bare, "expected_md5": pin} for pin in pins]


@pytest.mark.parametrize("name", ["a:b.vcf", "http:x.vcf", "100%.vcf", "space name.vcf", "%41.vcf"])
def test_a_local_path_is_told_from_a_url(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / name
    path.write_bytes(CONTENT)
    path.with_name(f"{name}.md5").write_text(MD5)
    for url in (str(path), path.as_uri()):
        source = SourceFile(url, PUBLISHED, tmp_path)
        assert source.identity() == {"file": name, "md5": MD5, "expected_md5": MD5}
        with source.local() as local:
            assert local.path == path
    monkeypatch.chdir(tmp_path)
    assert SourceFile(name, None, tmp_path).identity() == {"file": name, "md5": MD5}


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


def test_a_place_is_asked_without_reading_the_file(site: WebServer, tmp_path: Path) -> None:
    site.files["big.vcf.gz"] = CONTENT
    source = SourceFile(site.url("big.vcf.gz"), None, tmp_path)
    stated = source.stated_identity()
    assert stated == source.identity() == {"file": "big.vcf.gz", "size_bytes": len(CONTENT), "version": '"v1"'}
    assert site.headed == ["/big.vcf.gz"]
    site.etag = '"v2"'
    assert source.stated_identity() != stated
    with pytest.raises(FetchError, match="does not exist"):
        SourceFile(site.url("absent.vcf.gz"), None, tmp_path).stated_identity()


def test_a_place_that_knows_no_head_is_asked_for_one_byte(site: WebServer, tmp_path: Path) -> None:
    site.files["big.vcf.gz"], site.head = CONTENT, False
    stated = SourceFile(site.url("big.vcf.gz"), None, tmp_path).stated_identity()
    assert stated["size_bytes"] == len(CONTENT)
    assert site.requests == [("/big.vcf.gz", None), ("/big.vcf.gz", "bytes=0-0")]
    assert len(site.headed) == 1


def test_a_server_that_fails_for_a_while_is_asked_again_for_the_identity(site: WebServer, tmp_path: Path) -> None:
    site.files["big.vcf.gz"], site.statuses = CONTENT, [503]
    source = SourceFile(site.url("big.vcf.gz"), None, tmp_path)
    assert source.identity() == {"file": "big.vcf.gz", "size_bytes": len(CONTENT), "version": '"v1"'}
    assert len(site.requests) == 2


def test_a_local_file_is_told_by_size_and_time_without_being_read(path: Path, tmp_path: Path) -> None:
    source = SourceFile(str(path), PUBLISHED, tmp_path)
    stated = source.stated_identity()
    assert stated["size_bytes"] == len(CONTENT)
    path.chmod(0o600)
    assert source.stated_identity() == stated
    os.utime(path, ns=(0, 0))
    assert source.stated_identity() != stated
    path.with_name("file.vcf.gz.md5").write_text(MD5)
    assert source.stated_identity()["expected_md5"] == MD5


def test_a_file_of_another_protocol_is_told_by_what_the_place_says(remote: str, tmp_path: Path) -> None:
    first = SourceFile(remote, None, tmp_path).stated_identity()
    assert first == SourceFile(remote, None, tmp_path).identity()
    fsspec.filesystem("memory").pipe("/server/file.vcf.gz", CONTENT + b"A")
    assert SourceFile(remote, None, tmp_path).stated_identity() != first


PACKED = {"plain": Compression.PLAIN, "gzip": Compression.GZIP, "bgzip": Compression.BGZF}


@pytest.mark.parametrize("how", PACKED)
@pytest.mark.parametrize("text", ["", "x", "ACGT" * 50_000])
def test_packing_is_told_by_the_first_bytes(tmp_path: Path, how: str, text: str) -> None:
    with write_text(tmp_path / "a.txt", text, how).open("rb") as file:
        assert detect_compression(file) is PACKED[how]
        assert has_bgzf_end(file) is (how == "bgzip")
        assert file.tell() == 0


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (BGZF_END[:17], Compression.GZIP),
        (BGZF_END[:18], Compression.BGZF),
        (b"\x1f", Compression.PLAIN),
        (gzip.compress(b"x")[:3], Compression.GZIP),
        (BGZF_END[:12] + b"XX" + BGZF_END[14:], Compression.GZIP),
    ],
)
def test_borders(tmp_path: Path, data: bytes, expected: Compression) -> None:
    with write_text(tmp_path / "a.txt", data).open("rb") as file:
        assert detect_compression(file) is expected
        assert not has_bgzf_end(file) or data == BGZF_END


PLACES: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda path: None, "does not exist: expected a file|does not exist"),
    "a directory": (Path.mkdir, "is a directory"),
    "a pipe": (os.mkfifo, "is not a regular file"),
    "a device": (lambda path: path.symlink_to("/dev/null"), "is not a regular file"),
    "a link to nothing": (lambda path: path.symlink_to("gone"), "does not exist"),
    "a link to itself": (lambda path: path.symlink_to(path.name), "cannot be read"),
}


@pytest.mark.parametrize("case", PLACES)
@pytest.mark.timeout(10)
def test_what_is_no_local_file_is_named(case: str, tmp_path: Path) -> None:
    make, problem = PLACES[case]
    make(tmp_path / "place")
    with pytest.raises(InputError, match=problem) as raised:
        check_local_file(tmp_path / "place")
    assert str(raised.value).startswith(f"{tmp_path / 'place'}: ")
    with pytest.raises(VcfError):
        check_local_file(tmp_path / "place", error=VcfError)
