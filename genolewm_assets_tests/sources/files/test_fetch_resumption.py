"""Downloads that break off: gone on with by range, in the same run or a later one, and never mixed of two files."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from genolewm_assets.errors import FetchError
from genolewm_assets.sources.files.fetch import fetch
from genolewm_assets.sources.files.remote import fetch_error
from genolewm_assets.sources.files.source import SourceFile
from genolewm_assets_tests.servers.served_file import AT_ONCE, CONTENT, MD5, leftovers
from genolewm_assets_tests.servers.web_server import WebServer


@pytest.fixture
def site(site: WebServer) -> WebServer:
    site.files["data.bin"] = CONTENT
    return site


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "downloads" / "data.bin"


@pytest.mark.parametrize("etag", ['"v1"', 'W/"v1"'])
def test_a_dropped_connection_is_resumed_by_range(site: WebServer, target: Path, etag: str) -> None:
    site.etag = etag
    site.cuts = [1_500_000, 700_000]
    fetch(site.url("data.bin"), target, md5=MD5, wait=AT_ONCE)
    assert target.read_bytes() == CONTENT
    offsets = [int(wanted[6:-1]) if wanted else 0 for _, wanted in site.requests]
    assert len(offsets) == 3
    assert 0 == offsets[0] < offsets[1] < offsets[2]


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
    fetch(site.url("data.bin"), target, wait=AT_ONCE)
    assert target.read_bytes() == fresh


def test_a_server_that_ignores_if_range_is_found_out(site: WebServer, target: Path) -> None:
    def replace() -> None:
        site.files["data.bin"], site.etag = CONTENT[::-1], 'W/"v2"'

    site.etag = 'W/"v1"'  # a weak ETag is not sent as If-Range, so the range of the new file comes back
    site.cuts = [1_500_000]
    site.on_request[2] = replace
    fetch(site.url("data.bin"), target, wait=AT_ONCE)
    assert target.read_bytes() == CONTENT[::-1]


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
    assert fetch(site.url("data.bin"), target) == MD5
    assert site.requests == [("/data.bin", f"bytes={held}-")]
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
    assert fetch(site.url("data.bin"), target, md5=MD5) == MD5
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


def test_kill_9_midway_then_the_same_bytes(site: WebServer, target: Path) -> None:
    script = (
        "import sys, signal, os\n"
        "from pathlib import Path\n"
        "from genolewm_assets.sources.files import partial\n"
        "partial._CHECKPOINT_BYTES = 1 << 20\n"
        "from genolewm_assets.sources.files.fetch import fetch\n"
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


def test_a_new_signature_goes_on_with_the_download_and_no_signature_is_kept(site: WebServer, tmp_path: Path) -> None:
    queries = ["?X-Amz-Signature=SECRET1&versionId=7", "?X-Amz-Signature=SECRET2&versionId=7"]
    site.files |= {f"data.bin{query}": CONTENT for query in queries}
    first, second = (SourceFile(site.url(f"data.bin{query}"), None, tmp_path / "downloads") for query in queries)
    part = first.download_folder / f"{first.name}.part"
    site.cuts, site.statuses = [1_500_000], [200, 403]  # the signature ends
    with pytest.raises(FetchError, match="does not exist") as refused:
        fetch(first.url, tmp_path / "data.bin", part=part, wait=AT_ONCE)
    told = [str(refused.value), str(refused.value.__cause__), *(path.name for path in tmp_path.rglob("*"))]
    kept = [path.read_text() for path in tmp_path.rglob("*.json")]
    assert len(kept) == 1
    assert "SECRET" not in "".join([*told, *kept])
    assert second.copy_to(tmp_path).path.read_bytes() == CONTENT
    assert site.requests[-1] == (f"/data.bin{queries[1]}", "bytes=1500000-")


def test_the_cause_of_a_failed_download_holds_no_password() -> None:
    cause = FileNotFoundError("s3://me:SECRET@bucket/a.vcf?token=SECRET")
    assert fetch_error("s3://bucket/a.vcf", cause).where == "s3://bucket/a.vcf"
    assert str(cause) == "s3://…@bucket/a.vcf?token=…"
