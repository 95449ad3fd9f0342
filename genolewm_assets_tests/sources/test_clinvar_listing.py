from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fsspec
import pytest
import tenacity

from genolewm_assets.errors import FetchError, MissingResourceError
from genolewm_assets.sources.clinvar_listing import Release, find_release, list_releases, read_listing
from genolewm_assets.sources.fetch import fetch, published_md5
from genolewm_assets_tests.sources.web_server import WebServer, running_server

NAMES = [
    "clinvar.vcf.gz",
    "clinvar.vcf.gz.md5",
    "clinvar_20201107.vcf.gz",
    "clinvar_20201107.vcf.gz.md5",
    "clinvar_20201107.vcf.gz.tbi",
    "clinvar_20201107_papu.vcf.gz",
    "clinvar_20201107_papu.vcf.gz.md5",
    "clinvar_20220525.chrM.vcf.gz",
    "clinvar_20220525.chrM.vcf.gz.md5",
    "clinvar_papu.vcf.gz",
    "clinvar_20261345.vcf.gz",
    "clinvar_20260226.vcf",
    "README.txt",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "vcf_GRCh38"
    (folder / "weekly").mkdir(parents=True)
    for name in NAMES:
        (folder / name).write_bytes(b"")
    return folder


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with running_server() as server:
        yield server


def keys(url: str) -> list[str]:
    return [release.key for release in list_releases(url)]


def test_a_folder_is_listed(folder: Path) -> None:
    assert list_releases(str(folder)) == [
        Release("2020-11-07", f"{folder}/clinvar_20201107.vcf.gz", f"{folder}/clinvar_20201107.vcf.gz.md5"),
        Release("2022-05-25", f"{folder}/clinvar_20220525.chrM.vcf.gz", f"{folder}/clinvar_20220525.chrM.vcf.gz.md5"),
    ]
    assert list_releases(f"{folder}/") == list_releases(str(folder))
    assert keys(folder.as_uri()) == keys(str(folder))
    assert list_releases(str(folder))[1].file_name == "clinvar_20220525.chrM.vcf.gz"


def test_any_prefix_is_listed() -> None:
    for name in NAMES:
        with fsspec.open(f"memory://clinvar/{name}", "wb") as file:
            file.write(b"x")
    releases = list_releases("memory://clinvar")
    assert [release.key for release in releases] == ["2020-11-07", "2022-05-25"]
    with fsspec.open(releases[0].url, "rb") as file:
        assert file.read() == b"x"


NCBI_PAGE = """<html><head><title>Index of /pub/clinvar/vcf_GRCh38/weekly</title></head><body><h1>Index</h1><pre>
<a href="?C=N;O=D">Name</a>
<a href="/pub/clinvar/vcf_GRCh38/">Parent Directory</a>
<a href="archive_2.0/">archive_2.0/</a>  2026-01-01 00:00    -
<a href="clinvar_20260226.vcf.gz">clinvar_20260226.vcf.gz</a>       2026-02-27 10:11  183M
<A HREF='clinvar_20260226.vcf.gz.md5'>clinvar_20260226.vcf.gz.md5</A>
<a class="x" href="/data/clinvar%5F20201107.vcf.gz?raw=1">clinvar_20201107.vcf.gz</a>
<a href="https://elsewhere.example/clinvar_20201107.vcf.gz.md5">clinvar_20201107.vcf.gz.md5</a>
clinvar_19990101.vcf.gz is mentioned but not linked
</pre></body></html>"""


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_directory_page_is_listed_and_never_leads_elsewhere(site: WebServer, slash: str) -> None:
    site.files["data/"] = NCBI_PAGE.encode()
    base = site.url("data")
    assert list_releases(base + slash) == [
        Release("2020-11-07", f"{base}/clinvar_20201107.vcf.gz", f"{base}/clinvar_20201107.vcf.gz.md5"),
        Release("2026-02-26", f"{base}/clinvar_20260226.vcf.gz", f"{base}/clinvar_20260226.vcf.gz.md5"),
    ]


def test_server_errors_are_retried(site: WebServer) -> None:
    site.files["data/"] = NCBI_PAGE.encode()
    site.statuses = [503, 500]
    assert len(list_releases(site.url("data"), wait=tenacity.wait_none())) == 2
    site.statuses = [503] * 9
    with pytest.raises(FetchError, match="HTTP 503"):
        list_releases(site.url("data"), attempts=2, wait=tenacity.wait_none())


def test_a_file_without_its_checksum_is_still_arriving(folder: Path) -> None:
    (folder / "clinvar_20260226.vcf.gz").write_bytes(b"half")
    listing = read_listing(str(folder))
    assert [release.key for release in listing.releases] == ["2020-11-07", "2022-05-25"]
    assert listing.unfinished == ("clinvar_20260226.vcf.gz",)
    with pytest.raises(MissingResourceError, match=r"clinvar_20260226\.vcf\.gz has no checksum yet"):
        find_release(listing, "2026-02-26")
    (folder / "clinvar_20260226.vcf.gz.md5").write_bytes(b"")
    assert keys(str(folder)) == ["2020-11-07", "2022-05-25", "2026-02-26"]


def test_a_place_without_checksums_is_taken_as_it_is(folder: Path) -> None:
    for file in folder.glob("*.md5"):
        file.unlink()
    assert [release.md5_url for release in list_releases(str(folder))] == [None, None]


def test_files_of_one_date_get_numbers_and_the_plain_one_the_plain_key(tmp_path: Path) -> None:
    for name in ("clinvar_20260226.b.vcf.gz", "clinvar_20260226.vcf.gz", "clinvar_20260226.a.vcf.gz"):
        (tmp_path / name).write_bytes(b"")
    listed = {release.key: release.file_name for release in list_releases(str(tmp_path))}
    assert listed == {
        "2026-02-26": "clinvar_20260226.vcf.gz",
        "2026-02-26.2": "clinvar_20260226.a.vcf.gz",
        "2026-02-26.3": "clinvar_20260226.b.vcf.gz",
    }


def test_more_than_nine_files_of_one_date_stay_in_order(tmp_path: Path) -> None:
    for index in range(12):
        (tmp_path / f"clinvar_20260226.r{index:02}.vcf.gz").write_bytes(b"")
    assert keys(str(tmp_path)) == ["2026-02-26", *(f"2026-02-26.{number}" for number in range(2, 13))]


def test_allowed_keys_limit_the_list(folder: Path) -> None:
    assert [release.key for release in list_releases(str(folder), allowed=["2022-05-25"])] == ["2022-05-25"]
    assert list_releases(str(folder), allowed=[]) == []


def test_an_allowed_key_that_the_place_lacks_is_named(folder: Path) -> None:
    with pytest.raises(MissingResourceError, match=r"no such ClinVar release: .* got '2099-01-01'"):
        list_releases(str(folder), allowed=["2022-05-25", "2099-01-01"])
    (folder / "clinvar_20260226.vcf.gz").write_bytes(b"half")
    with pytest.raises(MissingResourceError, match="no checksum yet"):
        list_releases(str(folder), allowed=["2026-02-26"])


def test_find_release(folder: Path) -> None:
    listing = read_listing(str(folder))
    assert find_release(listing, "2020-11-07").file_name == "clinvar_20201107.vcf.gz"
    with pytest.raises(
        MissingResourceError,
        match="one of the 2 offered, such as 2020-11-07, 2022-05-25, got '2019-01-01'",
    ):
        find_release(listing, "2019-01-01")


def test_an_empty_folder_offers_nothing(tmp_path: Path) -> None:
    listing = read_listing(str(tmp_path))
    assert (listing.releases, listing.unfinished) == ((), ())
    with pytest.raises(MissingResourceError, match=r"no such ClinVar release: expected a file clinvar_YYYYMMDD\.vcf"):
        find_release(listing, "2020-11-07")
    (tmp_path / "clinvar.vcf.gz").write_bytes(b"")
    message = r"offers no ClinVar release: expected files named clinvar_YYYYMMDD\.vcf\.gz, got none"
    with pytest.raises(MissingResourceError, match=message):
        list_releases(str(tmp_path))


def test_places_that_are_no_listing(folder: Path, site: WebServer) -> None:
    for url in (f"{folder}/nowhere", f"{folder}/README.txt", site.url("nowhere"), "memory://no/such/prefix"):
        with pytest.raises(FetchError, match="no such listing"):
            list_releases(url)
    with pytest.raises(FetchError, match="download failed"):
        list_releases("nonsense://x")


def test_the_real_releases_through_a_plain_web_server(shared_data: Path, tmp_path: Path, site: WebServer) -> None:
    """The standard library's server: generated directory pages, Last-Modified, neither ETag nor ranges."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(shared_data)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        place = f"http://127.0.0.1:{server.server_port}/clinvar/vcf_GRCh38"
        releases = list_releases(place)
        assert [release.key for release in releases] == ["2020-11-07", "2022-05-25", "2026-02-26"]
        for release in releases:
            assert release.md5_url == f"{place}/{release.file_name}.md5"
            fetch(release.url, tmp_path / release.file_name, md5=published_md5(release.url))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_real_releases(shared_data: Path, tmp_path: Path) -> None:
    releases = list_releases(str(shared_data / "clinvar" / "vcf_GRCh38"))
    assert [release.key for release in releases] == ["2020-11-07", "2022-05-25", "2026-02-26"]
    for release in releases:
        receipt = fetch(release.url, tmp_path / release.file_name, md5=published_md5(release.url))
        assert receipt.size_bytes > 50_000
