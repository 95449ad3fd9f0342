from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import fsspec
import pytest
import tenacity

from genolewm_assets.errors import BusyError, ChecksumError, FetchError
from genolewm_assets.sources.fetch import fetch, published_md5
from genolewm_assets_tests.sources.web_server import WebServer, running_server

CONTENT = random.Random(7).randbytes(3_000_000)
MD5 = hashlib.md5(CONTENT).hexdigest()
SHA256 = hashlib.sha256(CONTENT).hexdigest()
AT_ONCE = tenacity.wait_none()


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with running_server() as server:
        server.files["data.bin"] = CONTENT
        yield server


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "downloads" / "data.bin"


def leftovers(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir())


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
    assert bar.seen[-1] == (len(CONTENT), len(CONTENT), "bytes")
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


@pytest.mark.parametrize("etag", ['"v1"', 'W/"v1"'])
def test_a_dropped_connection_is_resumed_by_range(site: WebServer, target: Path, etag: str) -> None:
    site.etag = etag
    site.cuts = [1_500_000, 700_000]
    fetch(site.url("data.bin"), target, md5=MD5, wait=AT_ONCE)
    assert target.read_bytes() == CONTENT
    offsets = [int(wanted[6:-1]) if wanted else 0 for _, wanted in site.requests]
    assert len(offsets) == 3
    assert 0 == offsets[0] < offsets[1] < offsets[2]


def test_a_server_that_drops_often_but_delivers_is_followed_to_the_end(site: WebServer, target: Path) -> None:
    site.cuts = [400_000] * 7
    fetch(site.url("data.bin"), target, attempts=2, wait=AT_ONCE)
    assert target.read_bytes() == CONTENT


def test_without_ranges_it_begins_again(site: WebServer, target: Path) -> None:
    site.ranges = False
    site.cuts = [1_500_000]
    fetch(site.url("data.bin"), target, md5=MD5, wait=AT_ONCE)
    assert target.read_bytes() == CONTENT


def test_without_ranges_a_server_that_always_drops_is_given_up(site: WebServer, target: Path) -> None:
    site.ranges = False
    site.cuts = [1_500_000] * 40
    with pytest.raises(FetchError, match=r"got [0-9,]+ of 3,000,000 bytes"):
        fetch(site.url("data.bin"), target, attempts=3, wait=AT_ONCE)
    assert len(site.requests) < 20
    assert not target.exists()


@pytest.mark.parametrize("ranges", [True, False])
def test_a_file_that_changes_between_two_requests_is_never_mixed(site: WebServer, target: Path, ranges: bool) -> None:
    fresh = CONTENT[::-1]

    def replace() -> None:
        site.files["data.bin"], site.etag = fresh, '"v2"'

    site.ranges = ranges
    site.cuts = [1_500_000]
    site.on_request[2] = replace
    assert fetch(site.url("data.bin"), target, wait=AT_ONCE).etag == '"v2"'
    assert target.read_bytes() == fresh


def test_a_server_that_ignores_if_range_is_found_out(site: WebServer, target: Path) -> None:
    def replace() -> None:
        site.files["data.bin"], site.etag = CONTENT[::-1], 'W/"v2"'

    site.etag = 'W/"v1"'  # a weak ETag is not sent as If-Range, so the range of the new file comes back
    site.cuts = [1_500_000]
    site.on_request[2] = replace
    fetch(site.url("data.bin"), target, wait=AT_ONCE)
    assert target.read_bytes() == CONTENT[::-1]


def test_a_file_that_shrank_is_begun_again(site: WebServer, target: Path) -> None:
    def replace() -> None:
        site.files["data.bin"], site.etag = CONTENT[:1_000_000], None

    site.etag = None
    site.cuts = [1_500_000]
    site.on_request[2] = replace
    short = hashlib.md5(CONTENT[:1_000_000]).hexdigest()
    fetch(site.url("data.bin"), target, md5=short, wait=AT_ONCE)
    assert target.read_bytes() == CONTENT[:1_000_000]


def test_size_alone_does_not_identify_a_file(site: WebServer, target: Path) -> None:
    site.etag = None
    site.cuts = [1_500_000]
    fetch(site.url("data.bin"), target, wait=AT_ONCE)
    assert [wanted for _, wanted in site.requests] == [None, None]
    assert target.read_bytes() == CONTENT


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


def test_nothing_listens(target: Path) -> None:
    with pytest.raises(FetchError, match="download failed"):
        fetch("http://127.0.0.1:1/data.bin", target, attempts=2, wait=AT_ONCE)


@pytest.mark.parametrize(
    ("url", "problem"),
    [("/no/such/file", "not there"), ("nonsense://x/y", "download failed"), ("{folder}", "is a folder")],
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


def interrupted(site: WebServer, target: Path) -> Path:
    """Leave a part as an earlier run does."""
    site.cuts = [1_500_000]
    site.statuses = [200, 503]
    with pytest.raises(FetchError, match=r"got [0-9,]+ of 3,000,000"):
        fetch(site.url("data.bin"), target, attempts=1, wait=AT_ONCE)
    site.requests.clear()
    site.statuses.clear()
    part = target.with_name("data.bin.part")
    assert 0 < part.stat().st_size <= 1_500_000
    assert not target.exists()
    return part


def test_a_later_run_goes_on(site: WebServer, target: Path) -> None:
    held = interrupted(site, target).stat().st_size
    receipt = fetch(site.url("data.bin"), target)
    assert site.requests == [("/data.bin", f"bytes={held}-")]
    assert receipt.sha256 == SHA256
    assert leftovers(target) == ["data.bin"]


def test_a_later_run_begins_again_when_the_file_changed(site: WebServer, target: Path) -> None:
    interrupted(site, target)
    site.files["data.bin"], site.etag = CONTENT[::-1], '"v2"'
    fetch(site.url("data.bin"), target)
    assert target.read_bytes() == CONTENT[::-1]


def test_a_later_run_for_another_url_begins_again(site: WebServer, target: Path) -> None:
    interrupted(site, target)
    site.files["other.bin"] = CONTENT[::-1]
    fetch(site.url("other.bin"), target)
    assert site.requests == [("/other.bin", None)]
    assert target.read_bytes() == CONTENT[::-1]


@pytest.mark.parametrize("damage", ["flipped", "longer", "shorter", "record", "no record"])
def test_a_damaged_part_never_reaches_the_file(site: WebServer, target: Path, damage: str) -> None:
    part = interrupted(site, target)
    record = part.with_name("data.bin.part.json")
    content = bytearray(part.read_bytes())
    held = len(content)
    if damage == "flipped":
        content[777] ^= 1
    elif damage == "longer":
        content += b"\0" * 4096
    elif damage == "shorter":
        del content[1000:]
    elif damage == "record":
        record.write_text('{"done": 15, "url": 3')
    else:
        record.unlink()
    part.write_bytes(content)
    fetch(site.url("data.bin"), target)
    assert target.read_bytes() == CONTENT
    resumed = site.requests == [("/data.bin", f"bytes={held}-")]
    assert resumed == (damage == "longer")


def test_a_complete_part_needs_no_server(site: WebServer, target: Path) -> None:
    part = target.with_name("data.bin.part")
    part.parent.mkdir()
    part.write_bytes(CONTENT)
    stamp = {"size": len(CONTENT), "etag": '"v1"', "modified": None}
    record = {"url": site.url("data.bin"), "done": len(CONTENT), "md5": MD5, "stamp": stamp}
    part.with_name("data.bin.part.json").write_text(json.dumps(record))
    assert fetch(site.url("data.bin"), target, md5=MD5).etag == '"v1"'
    assert site.requests == []
    assert target.read_bytes() == CONTENT


def test_bytes_of_an_earlier_run_are_doubted_before_the_server(site: WebServer, target: Path) -> None:
    """The same stamp for other content, as of a server without ETag whose file has the same size."""
    part = interrupted(site, target)
    content = b"x" * part.stat().st_size
    part.write_bytes(content)
    record = part.with_name("data.bin.part.json")
    state = json.loads(record.read_text())
    record.write_text(json.dumps({**state, "md5": hashlib.md5(content).hexdigest()}))
    fetch(site.url("data.bin"), target, md5=MD5)
    assert [wanted for _, wanted in site.requests] == [f"bytes={len(content)}-", None]
    assert target.read_bytes() == CONTENT


def test_the_part_may_live_elsewhere(site: WebServer, target: Path, tmp_path: Path) -> None:
    part = tmp_path / "kept" / "data.part"
    part.parent.mkdir()
    site.cuts, site.statuses = [1_500_000], [200, 404]
    with pytest.raises(FetchError):
        fetch(site.url("data.bin"), target, part=part, wait=AT_ONCE)
    assert part.stat().st_size > 0
    fetch(site.url("data.bin"), target, part=part)
    assert target.read_bytes() == CONTENT
    assert list(part.parent.iterdir()) == []


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


def test_kill_9_midway_then_the_same_bytes(site: WebServer, target: Path) -> None:
    script = (
        "import sys, signal, os\n"
        "from pathlib import Path\n"
        "from genolewm_assets.sources import partial_file\n"
        "partial_file._CHECKPOINT_BYTES = 1 << 20\n"
        "from genolewm_assets.sources.fetch import fetch\n"
        "class Bar:\n"
        "    def advance(self, done, total, unit):\n"
        "        if done > 2_500_000: os.kill(os.getpid(), signal.SIGKILL)\n"
        "fetch(sys.argv[1], Path(sys.argv[2]), progress=Bar())\n"
    )
    child = subprocess.run([sys.executable, "-c", script, site.url("data.bin"), str(target)], check=False)
    assert child.returncode == -signal.SIGKILL
    assert not target.exists()
    site.requests.clear()
    fetch(site.url("data.bin"), target, md5=MD5)
    assert target.read_bytes() == CONTENT
    assert site.requests == [("/data.bin", "bytes=2097152-")]


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


def test_importing_fetch_opens_no_connection() -> None:
    started = time.monotonic()
    code = (
        "import socket, threading\n"
        "def refuse(*a, **k): raise SystemExit('connected at import')\n"
        "socket.socket.connect = refuse\n"
        "import genolewm_assets.sources.fetch\n"
        "assert threading.active_count() == 1, threading.enumerate()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert time.monotonic() - started < 30
