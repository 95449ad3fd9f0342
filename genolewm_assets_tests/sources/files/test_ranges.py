from __future__ import annotations

import io
import os
import random
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import fsspec
import pytest
import tenacity
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from isal import igzip

from genolewm_assets.errors import FetchError
from genolewm_assets.sources.files import ranges as range_file
from genolewm_assets.sources.files.local import Compression, detect_compression, has_bgzf_end
from genolewm_assets.sources.files.ranges import RangeFile
from genolewm_assets.sources.files.remote import RemoteStamp, ask_remote
from genolewm_assets_tests.servers.served_file import AT_ONCE
from genolewm_assets_tests.servers.web_server import WebServer, serving
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

CONTENT = random.Random(11).randbytes(12_000_000)
MIB = 1 << 20


@pytest.fixture
def site(site: WebServer) -> WebServer:
    site.files["data.bin"] = CONTENT
    return site


def opened(site: WebServer, **options: object) -> RangeFile:
    return RangeFile(site.url("data.bin"), wait=AT_ONCE, **options)  # type: ignore[arg-type]


def until(holds: Callable[[], bool]) -> None:
    """Wait for another thread; a test that waits in vain fails."""
    for _ in range(1_000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("waited in vain")


def replace(site: WebServer, content: bytes, etag: str | None = '"v2"') -> None:
    site.files["data.bin"], site.etag = content, etag


def test_it_is_a_file_as_any_other(site: WebServer) -> None:
    with opened(site) as file:
        assert (file.readable(), file.seekable(), file.writable()) == (True, True, False)
        assert file.seek(-3, os.SEEK_END) == len(CONTENT) - 3
        assert file.read(10) == CONTENT[-3:]
        assert file.seek(5) == 5
        assert file.seek(2, os.SEEK_CUR) == 7
        assert file.read(0) == b""
        assert file.read(4) == CONTENT[7:11]
        buffer = bytearray(6)
        assert file.readinto(buffer) == 6
        assert buffer == CONTENT[11:17]
        file.seek(len(CONTENT) + 9)
        assert (file.read(1), file.readinto(buffer), file.tell()) == (b"", 0, len(CONTENT) + 9)
        for wrong in [(-1,), (-len(CONTENT) - 1, os.SEEK_END), (0, 7)]:
            with pytest.raises(ValueError, match="expected"):
                file.seek(*wrong)
    for use in (file.read, file.tell, lambda: file.seek(0)):
        with pytest.raises(ValueError, match="closed"):
            use()
    with io.BufferedReader(opened(site)) as buffered:
        buffered.seek(4_999_999)
        assert buffered.read(3) == CONTENT[4_999_999:5_000_002]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, len(CONTENT) + 5) | st.none(), st.integers(0, 3 * MIB)), min_size=1, max_size=8)
)
def test_any_reads_give_what_a_local_file_gives(site: WebServer, reads: list[tuple[int | None, int]]) -> None:
    local = io.BytesIO(CONTENT)
    with opened(site, stamp=RemoteStamp(len(CONTENT), '"v1"')) as file:
        for offset, size in reads:
            if offset is not None:
                assert file.seek(offset) == local.seek(offset)
            assert file.read(size) == local.read(size)
            assert file.tell() == local.tell()


def test_reading_ahead_is_bounded(site: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_file, "READ_AHEAD_BYTES", 2 * MIB)
    with opened(site) as file:
        assert file.read(70_000) == CONTENT[:70_000]
        until(lambda: file.bytes_fetched >= 2 * MIB)
        time.sleep(0.3)
        assert file.bytes_fetched <= 3 * MIB + (192 << 10)
        assert file.read() == CONTENT[70_000:]


def test_reading_ahead_stops_when_the_limit_is_reached_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_file, "READ_AHEAD_BYTES", 20)

    class Portions:
        url, position, end, close = "memory://portions", 0, 100, staticmethod(lambda: None)

        def next(self) -> bytes:
            self.position += 10
            return bytes(10)

    ahead = range_file._ReadAhead(Portions(), tenacity.Retrying(), (fetched := []).append)  # type: ignore[arg-type]
    ahead.take(), ahead.take(), until(lambda: len(fetched) >= 4)
    time.sleep(0.2)
    ahead.stop()
    assert sum(fetched) == 40


def test_a_look_at_the_head_reads_nothing_ahead(site: WebServer) -> None:
    with opened(site) as file:
        file.read(18)
        time.sleep(0.3)
        assert file.bytes_fetched == 64 << 10


def test_a_look_at_both_ends_and_a_small_step_take_few_requests(site: WebServer, tmp_path: Path) -> None:
    vcf = write_text(tmp_path / "a.vcf.gz", vcf_text([("1", 5, ".", "A", "C", "PASS", CONTENT[:MIB].hex())]), "bgzip")
    site.files["data.bin"] = vcf.read_bytes()
    with opened(site) as file:
        assert detect_compression(file) is Compression.BGZF
        assert has_bgzf_end(file)
        assert igzip.decompress(file.read()) == igzip.decompress(vcf.read_bytes())
    assert len(site.requests) == 4
    site.files["data.bin"] = CONTENT
    site.requests.clear()
    with opened(site) as file:
        for offset in (2_000_000, 2_000_010, 2_000_000, 2_900_000):
            file.seek(offset)
            assert file.read(100) == CONTENT[offset : offset + 100]
    assert len(site.requests) == 2


def test_broken_connections_and_passing_refusals_are_overcome(site: WebServer) -> None:
    with opened(site, attempts=4) as file:
        site.cuts = [1_500_000, 700_000, 0, 10, 3_000_000]
        site.statuses = [503, 200, 500, 429]
        assert file.read() == CONTENT
    offsets = [int(wanted[6:-1]) if wanted else 0 for _, wanted in site.requests]
    assert offsets == sorted(offsets)


def test_a_server_that_drops_often_but_delivers_is_followed_to_the_end(site: WebServer) -> None:
    with opened(site, attempts=2) as file:
        site.cuts = [400_000] * 40
        assert file.read() == CONTENT


def test_attempts_run_out_and_a_later_read_tries_again(site: WebServer) -> None:
    with opened(site, attempts=3) as file:
        site.statuses = [503] * 3
        with pytest.raises(FetchError, match=r"data\.bin: download failed \(HTTP 503 .*\)\. Run it again later\.$"):
            file.read(10)
        assert len(site.requests) == 1 + 3
        assert file.tell() == 0
        assert file.read(10) == CONTENT[:10]


@pytest.mark.parametrize("start", [0, 5_000_000])
@pytest.mark.parametrize("fresh", [CONTENT[::-1], CONTENT[:6_000_000], CONTENT[:4_000_000], CONTENT + b"x"])
def test_a_file_that_changed_since_it_was_opened_is_not_read(site: WebServer, start: int, fresh: bytes) -> None:
    with opened(site) as file:
        replace(site, fresh)
        file.seek(start)
        with pytest.raises(FetchError, match=r"no longer the version first opened.*Run it again\.$"):
            file.read(100)
        assert len(site.requests) == 2


def test_a_file_that_changes_between_two_answers_is_never_mixed(site: WebServer) -> None:
    with opened(site) as file:
        site.cuts = [1_500_000]
        site.on_request[3] = lambda: replace(site, CONTENT[::-1])
        with pytest.raises(FetchError, match="no longer the version first opened"):
            file.read()
        # What had arrived of the first version may be read again.
        replace(site, CONTENT, '"v1"')
        file.seek(0)
        assert file.read() == CONTENT


def test_without_an_etag_the_size_tells_versions_apart(site: WebServer) -> None:
    site.etag = None
    with opened(site) as file:
        assert file.read(10) == CONTENT[:10]
        replace(site, CONTENT[:-1], None)
        file.seek(9_000_000)
        with pytest.raises(FetchError, match="no longer the version first opened"):
            file.read(10)


def test_several_readers_are_held_to_one_version(site: WebServer) -> None:
    stamp = ask_remote(site.url("data.bin"))
    replace(site, CONTENT[::-1])
    with opened(site, stamp=stamp) as file, pytest.raises(FetchError, match="no longer the version"):
        file.read(10)
    assert len(site.requests) == 2


def test_a_server_without_ranges_serves_from_the_beginning_only(site: WebServer) -> None:
    site.ranges = False
    with opened(site) as file:
        assert file.read() == CONTENT
        file.seek(5_000_000)
        with pytest.raises(FetchError, match=r"cannot send a part of the file: expected a range from byte 5,000,000"):
            file.read(10)


class _Capped(BaseHTTPRequestHandler):
    """Answers a range with the first ``most`` bytes of it, correctly."""

    most = 0

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()

    def do_GET(self) -> None:
        start = int(self.headers["Range"].removeprefix("bytes=").rstrip("-"))
        part = CONTENT[start : start + self.most]
        self.send_response(206)
        self.send_header("Content-Length", str(len(part)))
        self.send_header("Content-Range", f"bytes {start}-{start + len(part) - 1}/{len(CONTENT)}")
        self.end_headers()
        self.wfile.write(part)


@pytest.mark.parametrize("most", [0, 300_000])
def test_answers_shorter_than_the_range_are_followed_by_others(site: WebServer, most: int) -> None:
    with (
        serving(type("Handler", (_Capped,), {"most": most})) as port,
        RangeFile(f"http://127.0.0.1:{port}/data.bin", wait=AT_ONCE) as file,
    ):
        file.seek(11_000_000)
        if most:
            assert file.read() == CONTENT[11_000_000:]
            return
        with pytest.raises(FetchError, match="the response ended at byte 11,000,000 of 12,000,000"):
            file.read()


def test_a_file_that_is_not_there(site: WebServer, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match="does not exist"):
        RangeFile(site.url("other.bin"))
    with pytest.raises(FetchError, match="does not exist"):
        RangeFile(str(tmp_path / "other.bin"))
    with opened(site) as file:
        site.files.clear()
        with pytest.raises(FetchError, match="does not exist"):
            file.read(1)


def test_an_unknown_size_is_refused(site: WebServer) -> None:
    with pytest.raises(FetchError, match="does not state the size of the file"):
        opened(site, stamp=RemoteStamp(None, '"v1"'))


def test_an_empty_file(site: WebServer) -> None:
    site.files["data.bin"] = b""
    with opened(site) as file:
        assert (file.size, file.read(), file.read(5)) == (0, b"", b"")


def test_closing_ends_the_thread_also_while_it_waits_to_try_again(site: WebServer) -> None:
    def reading() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name == "read-ahead"}

    until(lambda: not reading())
    file = opened(site)
    file.read(10)
    assert reading()
    file.close()
    file.close()
    until(lambda: not reading())
    file = RangeFile(site.url("data.bin"), wait=tenacity.wait_fixed(600))
    site.cuts = [100_000]
    file.read(70_000)
    time.sleep(0.3)
    file.close()
    until(lambda: not reading())
    assert file.bytes_fetched == 100_000


@pytest.mark.parametrize("form", ["path", "file URL", "memory"])
def test_other_protocols(tmp_path: Path, form: str) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(CONTENT)
    url = {"path": str(path), "file URL": path.as_uri(), "memory": "memory://range_file/data.bin"}[form]
    if form == "memory":
        fsspec.filesystem("memory").pipe_file("/range_file/data.bin", CONTENT)
    with RangeFile(url) as file:
        assert file.read() == CONTENT
        file.seek(3_000_000)
        assert file.read(2_000_000) == CONTENT[3_000_000:5_000_000]
    fsspec.filesystem("memory").store.clear()


def test_a_local_file_that_changed(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(CONTENT)
    with RangeFile(str(path)) as file:
        path.write_bytes(CONTENT[::-1])
        os.utime(path, ns=(1, 1))
        with pytest.raises(FetchError, match="no longer the version first opened"):
            file.read(10)
