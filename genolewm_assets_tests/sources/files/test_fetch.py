"""Downloads: complete and verified before they are there under their name, or refused in one line."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import time
from io import FileIO
from pathlib import Path

import fsspec
import pytest
import tenacity

from genolewm_assets.errors import BusyError, ChecksumError, FetchError
from genolewm_assets.sources.files.fetch import fetch
from genolewm_assets_tests.servers.served_file import AT_ONCE, CONTENT, MD5, SHA256, leftovers
from genolewm_assets_tests.servers.web_server import WebServer


@pytest.fixture
def site(site: WebServer) -> WebServer:
    site.files["data.bin"] = CONTENT
    return site


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "downloads" / "data.bin"


class Bar:
    def __init__(self) -> None:
        self.seen: list[tuple[int, int | None, str]] = []

    def advance(self, done: int, total: int | None, unit: str) -> None:
        self.seen.append((done, total, unit))


def test_http_download_is_complete_and_its_receipt_true(site: WebServer, target: Path) -> None:
    bar = Bar()
    receipt = fetch(site.url("data.bin"), target, md5=MD5.upper(), sha256=SHA256, progress=bar)
    assert target.read_bytes() == CONTENT
    assert (receipt.size_bytes, receipt.md5, receipt.sha256, receipt.etag) == (len(CONTENT), MD5, SHA256, '"v1"')
    assert leftovers(target) == ["data.bin"]
    assert bar.seen[-1] == (len(CONTENT), len(CONTENT), "bytes downloaded")
    assert len(site.requests) == 1


@pytest.mark.parametrize("as_url", [False, True])
def test_local_file_is_copied(tmp_path: Path, target: Path, as_url: bool) -> None:
    source = tmp_path / "source.bin"
    source.write_bytes(CONTENT)
    receipt = fetch(source.as_uri() if as_url else str(source), target, md5=MD5)
    assert target.read_bytes() == CONTENT
    assert receipt.md5 == MD5


def test_any_fsspec_protocol_is_read(target: Path) -> None:
    with fsspec.open("memory://bucket/data.bin", "wb") as file:
        file.write(CONTENT)
    assert fetch("memory://bucket/data.bin", target).sha256 == SHA256


def test_an_empty_file_is_a_file(site: WebServer, target: Path) -> None:
    site.files["data.bin"] = b""
    assert fetch(site.url("data.bin"), target).size_bytes == 0
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


def test_nothing_listens(target: Path) -> None:
    with pytest.raises(FetchError, match="download failed"):
        fetch("http://127.0.0.1:1/data.bin", target, attempts=2, wait=AT_ONCE)


@pytest.mark.parametrize(
    ("url", "problem"),
    [("/no/such/file", "does not exist"), ("nonsense://x/y", "download failed"), ("{folder}", "is a folder")],
)
def test_places_that_cannot_be_read(tmp_path: Path, target: Path, url: str, problem: str) -> None:
    with pytest.raises(FetchError, match=problem):
        fetch(url.format(folder=tmp_path), target, wait=AT_ONCE)


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_a_wrong_digest_leaves_nothing(site: WebServer, target: Path, algorithm: str) -> None:
    wrong = "0" * (32 if algorithm == "md5" else 64)
    with pytest.raises(ChecksumError) as raised:
        fetch(site.url("data.bin"), target, **{algorithm: wrong})  # type: ignore[arg-type]
    message = str(raised.value)
    assert f"expected {wrong}, got {MD5 if algorithm == 'md5' else SHA256} over 3,000,000 bytes" in message
    assert leftovers(target) == []


def test_a_wrong_digest_keeps_the_file_that_was_there(site: WebServer, target: Path) -> None:
    target.parent.mkdir()
    target.write_bytes(b"good")
    with pytest.raises(FetchError):
        fetch(site.url("data.bin"), target, md5="0" * 32)
    assert target.read_bytes() == b"good"


def test_one_download_at_a_time(site: WebServer, target: Path) -> None:
    target.parent.mkdir()
    part = target.with_name("data.bin.part")
    with part.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(BusyError, match="another process"):
            fetch(site.url("data.bin"), target)
    fetch(site.url("data.bin"), target)


def test_a_full_disk_is_named_and_what_was_there_stays(
    site: WebServer, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_importing_fetch_opens_no_connection() -> None:
    started = time.monotonic()
    code = (
        "import socket, threading\n"
        "def refuse(*a, **k): raise SystemExit('connected at import')\n"
        "socket.socket.connect = refuse\n"
        "import genolewm_assets.sources.files.fetch\n"
        "assert threading.active_count() == 1, threading.enumerate()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert time.monotonic() - started < 30
