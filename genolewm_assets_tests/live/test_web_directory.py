"""The web server of a folder is one that the project's own readers take for the public one.

What the UI's buttons do, through GraphQL, on a live server over the tiny world.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from genolewm_assets.sources.clinvar.listing import read_listing
from genolewm_assets.sources.files.fetch import fetch
from genolewm_assets_tests.live.backfill_steps import four_contigs_are_filled
from genolewm_assets_tests.live.graphql import GraphQLError
from genolewm_assets_tests.live.harness import LiveServer, live_server
from genolewm_assets_tests.servers.web_directory import web_directory
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld

CONTENT = bytes(range(256)) * 40


def test_listing_shows_what_is_complete_and_what_is_not(tmp_path: Path) -> None:
    with web_directory(tmp_path / "public") as site:
        for name in ("clinvar_20240107.vcf.gz", "clinvar_20250105.vcf.gz", "clinvar.vcf.gz"):
            (site.folder / name).write_bytes(CONTENT)
        site.publish_checksum(site.folder / "clinvar_20240107.vcf.gz")
        listing = read_listing(site.url)
        assert [file.file_name for file in listing.files] == ["clinvar_20240107.vcf.gz"]
        assert list(listing.unfinished) == ["clinvar_20250105.vcf.gz"]


def test_download_is_resumed_by_range_and_begun_again_when_the_file_has_changed(tmp_path: Path) -> None:
    with web_directory(tmp_path / "public") as site:
        (site.folder / "file").write_bytes(CONTENT)
        tail = Request(f"{site.url}file", headers={"Range": "bytes=10000-"})
        with urlopen(tail) as answer:
            assert answer.status == 206
            assert answer.read() == CONTENT[10_000:]
            etag = answer.headers["ETag"]
        (site.folder / "file").write_bytes(CONTENT[::-1])
        tail.add_header("If-Range", etag)
        with urlopen(tail) as answer:
            assert answer.status == 200
            assert answer.read() == CONTENT[::-1]
        assert fetch(f"{site.url}file", tmp_path / "copy").size_bytes == len(CONTENT)
        assert (tmp_path / "copy").read_bytes() == CONTENT[::-1]


def test_nothing_outside_the_folder_is_served(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    with web_directory(tmp_path / "public") as site:
        with pytest.raises(HTTPError) as refused:
            urlopen(f"{site.url}%2e%2e/secret")
        refused.value.close()
        assert refused.value.code == 404


pytestmark = [pytest.mark.timeout(1_800)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    world = TinyWorld(tmp_path_factory.mktemp("live"))
    with live_server(world.root, world.catalog) as server:
        yield server


def test_one_partition_and_a_backfill_of_four_contigs(server: LiveServer) -> None:
    four_contigs_are_filled(server)


@pytest.mark.parametrize(
    ("resource", "setting"), [("workspace", "root"), ("workspace", "catalog"), ("io_manager", "base_dir")]
)
def test_a_run_in_another_place_is_refused(server: LiveServer, tmp_path: Path, resource: str, setting: str) -> None:
    config = {"resources": {resource: {"config": {setting: str(tmp_path / "elsewhere")}}}}
    before = {run.id for run in server.graphql.runs()}
    with pytest.raises(GraphQLError, match="RunConfigValidationInvalid"):
        server.graphql.launch("reference/genome", config=config)
    assert {run.id for run in server.graphql.runs()} == before
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.test"},
        {"Origin": "http://evil.test", "Content-Type": "text/plain"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Origin": "null"},
    ],
)
def test_a_foreign_request_is_refused(server: LiveServer, headers: dict[str, str]) -> None:
    with pytest.raises(HTTPError, match="403"):
        replace(server.graphql, headers=headers).query("{ version }")


@pytest.mark.parametrize("host", ["localhost:9876", "127.0.0.1:9876", "[::1]:9876"])
def test_a_forwarded_port_answers(server: LiveServer, host: str) -> None:
    headers = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
    assert replace(server.graphql, headers=headers).is_loaded()
