"""Downloads: complete and verified before they are there, or refused in one line; and MD5s that are published."""

from __future__ import annotations

import errno
import fcntl
import os
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from io import FileIO
from pathlib import Path
from types import SimpleNamespace

import pytest
import tenacity

from genolewm_assets.errors import BusyError, ChecksumError, FetchError
from genolewm_assets.sources.files.fetch import fetch, published_md5
from genolewm_assets.sources.files.remote import ask_remote
from genolewm_assets_tests.heard import Heard
from genolewm_assets_tests.servers.served_file import AT_ONCE, CONTENT, MD5, leftovers
from genolewm_assets_tests.servers.web_server import WebServer


@pytest.fixture
def site(site: WebServer) -> WebServer:
    site.files["data.bin"] = CONTENT
    return site


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "downloads" / "data.bin"


def test_the_pause_that_a_server_asks_for_is_kept(site: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(tenacity.nap, "time", SimpleNamespace(sleep=pauses.append))
    now = datetime.now(UTC)
    asked = ["7", format_datetime(now + timedelta(seconds=120), usegmt=True), "86400"]
    asked += [format_datetime(now - timedelta(days=1)), "soon", "-3"]
    for site.retry_after in asked:
        site.statuses = [429, 503]
        ask_remote(site.url("data.bin"), wait=tenacity.wait_fixed(77))
    assert pauses[:2] == [7, 7]
    assert all(100 < pause <= 120 for pause in pauses[2:4])
    assert pauses[4:] == [600, 600, *[77] * 6]


def test_http_download_is_complete_and_its_md5_true(site: WebServer, target: Path) -> None:
    seen = Heard()
    assert fetch(site.url("data.bin"), target, md5=MD5.upper(), progress=seen) == MD5
    assert target.read_bytes() == CONTENT
    assert leftovers(target) == ["data.bin"]
    assert seen[-1] == (len(CONTENT), len(CONTENT), "bytes downloaded")
    assert len(site.requests) == 1


@pytest.mark.parametrize("as_url", [False, True])
def test_local_file_is_copied(tmp_path: Path, target: Path, as_url: bool) -> None:
    source = tmp_path / "source.bin"
    source.write_bytes(CONTENT)
    assert fetch(source.as_uri() if as_url else str(source), target, md5=MD5) == MD5
    assert target.read_bytes() == CONTENT


def test_an_empty_file_is_a_file(site: WebServer, target: Path) -> None:
    site.files["data.bin"] = b""
    fetch(site.url("data.bin"), target)
    assert target.read_bytes() == b""


def test_server_errors_are_retried_with_pauses(site: WebServer, target: Path) -> None:
    site.statuses = [500, 503, 429]
    pauses: list[int] = []

    class Counting(tenacity.wait.wait_base):
        def __call__(self, state: tenacity.RetryCallState) -> float:
            pauses.append(state.attempt_number)
            return 0

    fetch(site.url("data.bin"), target, md5=MD5, wait=Counting())
    assert pauses == [1, 2, 3]


def test_server_errors_end_in_one_line(site: WebServer, target: Path) -> None:
    site.statuses = [503] * 9
    with pytest.raises(FetchError) as raised:
        fetch(site.url("data.bin"), target, attempts=3, wait=AT_ONCE)
    assert str(raised.value) == (
        f"{site.url('data.bin')}: download failed (HTTP 503 Service Unavailable). Run it again later."
    )
    assert len(site.requests) == 3
    assert leftovers(target) == []


@pytest.mark.parametrize("status", [400, 403, 404, 410])
def test_refusals_are_not_retried(site: WebServer, target: Path, status: int) -> None:
    site.statuses = [status] * 9
    with pytest.raises(FetchError):
        fetch(site.url("data.bin"), target, wait=AT_ONCE)
    assert len(site.requests) == 1
    assert leftovers(target) == []


def test_a_folder_that_cannot_be_made_is_named(site: WebServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    target = tmp_path / "file" / "more" / "data.bin"
    with pytest.raises(FetchError, match=r"file/more: cannot be written \(Not a directory\)"):
        fetch(site.url("data.bin"), target)
    with pytest.raises(FetchError, match=r"cannot be written"):
        fetch(site.url("data.bin"), tmp_path / "data.bin", part=target)
    assert site.requests == []


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        *(("/no/such/file", "does not exist"), ("nonsense://x/y", "download failed"), ("{folder}", "is a folder")),
        ("http://127.0.0.1:1/data.bin", "download failed"),
    ],
)
def test_places_that_cannot_be_read(tmp_path: Path, target: Path, url: str, problem: str) -> None:
    with pytest.raises(FetchError, match=problem):
        fetch(url.format(folder=tmp_path), target, attempts=2, wait=AT_ONCE)


@pytest.mark.parametrize("existed", [False, True])
def test_a_wrong_digest_leaves_what_was_there(site: WebServer, target: Path, existed: bool) -> None:
    if existed:
        target.parent.mkdir()
        target.write_bytes(b"good")
    with pytest.raises(ChecksumError, match=f"expected {'0' * 32}, got {MD5} over 3,000,000 bytes"):
        fetch(site.url("data.bin"), target, md5="0" * 32)
    assert [path.read_bytes() for path in target.parent.iterdir()] == [b"good"] * existed


def test_one_download_at_a_time(site: WebServer, target: Path) -> None:
    target.parent.mkdir()
    part = target.with_name("data.bin.part")
    with part.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(BusyError, match="another process"):
            fetch(site.url("data.bin"), target)
    fetch(site.url("data.bin"), target)


def test_a_full_disk_is_named_and_files_stay(site: WebServer, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target.parent.mkdir()
    target.write_bytes(b"good")

    class FullDisk(FileIO):
        def write(self, data: object) -> int:
            if self.tell() > 1_000_000:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(data)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdopen", lambda fd, *_, **__: FullDisk(fd, "r+"))
        with pytest.raises(FetchError, match="cannot be written \\(No space left"):
            fetch(site.url("data.bin"), target)
    assert target.read_bytes() == b"good"
    fetch(site.url("data.bin"), target, md5=MD5)
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize(
    "text",
    [
        *("{md5}", "{MD5}\n", "{md5}  data.bin\n", "{md5} *data.bin\r\n", "{md5}\t/panfs/build/data.bin\n"),
        *("MD5 (data.bin) = {md5}\n", "00000000000000000000000000000000  other.bin\n{md5}  data.bin\n"),
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


def test_a_checksum_file_has_a_limit(site: WebServer, tmp_path: Path) -> None:
    content = MD5.encode() + b"\n" * (1 << 20)
    site.files["data.bin.md5"] = content
    (tmp_path / "data.bin.md5").write_bytes(content)
    for url in (site.url("data.bin"), str(tmp_path / "data.bin")):
        with pytest.raises(FetchError, match="file is too large: expected at most 1,048,576 bytes"):
            published_md5(url)


def test_a_checksum_file_behind_server_errors(site: WebServer) -> None:
    site.files["data.bin.md5"] = MD5.encode()
    site.statuses = [500, 502]
    site.cuts = [3]
    assert published_md5(site.url("data.bin"), wait=AT_ONCE) == MD5
    site.statuses = [500] * 9
    with pytest.raises(FetchError, match="HTTP 500"):
        published_md5(site.url("data.bin"), attempts=2, wait=AT_ONCE)
