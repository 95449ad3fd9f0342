"""The MD5 that is published beside a file, in every spelling, or not at all."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from genolewm_assets.errors import FetchError
from genolewm_assets.sources.files.fetch import published_md5
from genolewm_assets_tests.servers.served_file import AT_ONCE, MD5
from genolewm_assets_tests.servers.web_server import WebServer


@pytest.mark.parametrize(
    "text",
    [
        "{md5}",
        "{MD5}\n",
        "{md5}  data.bin\n",
        "{md5} *data.bin\r\n",
        "{md5}\t/panfs/build/data.bin\n",
        "MD5 (data.bin) = {md5}\n",
        "00000000000000000000000000000000  other.bin\n{md5}  data.bin\n",
    ],
)
def test_published_md5_is_read_in_every_spelling(site: WebServer, tmp_path: Path, text: str) -> None:
    content = text.format(md5=MD5, MD5=MD5.upper()).encode()
    site.files["data.bin.md5"] = content
    (tmp_path / "data.bin.md5").write_bytes(content)
    assert published_md5(site.url("data.bin")) == MD5
    assert published_md5(str(tmp_path / "data.bin")) == MD5
    assert published_md5((tmp_path / "data.bin").as_uri()) == MD5


def test_published_md5_of_a_url_with_a_query(site: WebServer) -> None:
    site.files["data.bin.md5?token=a"] = MD5.encode()
    assert published_md5(site.url("data.bin?token=a")) == MD5


@pytest.mark.parametrize("status", [403, 404])
def test_no_published_md5(site: WebServer, status: int) -> None:
    site.statuses = [status]
    assert published_md5(site.url("data.bin")) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"<html>not here</html>", b"1" * 32 + b"  a\n" + b"2" * 32 + b"  b\n", b"1" * 32 + b"\n" + b"2" * 32],
)
def test_a_checksum_file_without_the_checksum(site: WebServer, content: bytes) -> None:
    site.files["data.bin.md5"] = content
    with pytest.raises(FetchError, match=r"states no MD5 of 'data.bin'"):
        published_md5(site.url("data.bin"))


def test_a_checksum_file_behind_server_errors(site: WebServer) -> None:
    site.files["data.bin.md5"] = MD5.encode()
    site.statuses = [500, 502]
    site.cuts = [3]
    assert published_md5(site.url("data.bin"), wait=AT_ONCE) == MD5
    site.statuses = [500] * 9
    with pytest.raises(FetchError, match="HTTP 500"):
        published_md5(site.url("data.bin"), attempts=2, wait=AT_ONCE)


def test_a_checksum_file_has_a_limit(site: WebServer) -> None:
    site.files["data.bin.md5"] = b"1" * (2 << 20)
    with pytest.raises(FetchError, match="file is too large: expected at most 1,048,576 bytes"):
        published_md5(site.url("data.bin"))


def test_published_md5_of_the_real_files(shared_data: Path) -> None:
    checked = 0
    for stated in shared_data.rglob("*.md5"):
        file = stated.with_suffix("")
        assert published_md5(str(file)) == hashlib.md5(file.read_bytes()).hexdigest(), file
        checked += 1
    assert checked >= 7
