from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
import tenacity

from genolewm_assets.errors import FetchError
from genolewm_assets.sources.clinvar.listing import ListedFile, Listing, read_identity, read_listing
from genolewm_assets.sources.files.fetch import fetch
from genolewm_assets_tests.servers.s3_server import running_s3
from genolewm_assets_tests.servers.web_server import WebServer
from genolewm_assets_tests.worlds.sources.release_files import directory_page, md5_line, publish

ELSE = [
    *("clinvar.vcf.gz", "clinvar_20201107.vcf.gz.tbi", "clinvar_20201107_papu.vcf.gz", "clinvar_papu.vcf.gz"),
    *("clinvar_20261345.vcf.gz", "clinvar_00000101.vcf.gz", "clinvar_२०२६०२२६.vcf.gz", "clinvar_20260226.vcf"),
    *("README.txt",),
]
OLD, NEW = "clinvar_20201107.vcf.gz", "clinvar_20260226.vcf.gz"
MITO = "clinvar_20220525.chrM.vcf.gz"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "vcf_GRCh38"
    for name in ELSE:
        publish(folder, name)
    for name in (MITO, OLD):
        publish(folder, name, name.encode())
    (folder / "weekly").mkdir()
    return folder


def serve(site: WebServer, *names: str) -> str:
    """Serve files and their checksums under a directory page; returns its URL."""
    for name in names:
        site.files[f"data/{name}"] = name.encode()
        site.files[f"data/{name}.md5"] = md5_line(name.encode(), name)
    site.files["data/"] = directory_page([each for name in names for each in (name, f"{name}.md5")])
    return site.url("data")


def quick(url: str, within_s: float = 30) -> Listing:
    return read_listing(url, attempts=2, wait=tenacity.wait_none(), within_s=within_s)


def names(listing: Listing) -> list[str]:
    return [file.file_name for file in listing.files]


def test_a_folder_is_listed_with_its_checksums(folder: Path, tmp_path: Path) -> None:
    md5 = {name: publish(tmp_path / "same", name, name.encode()) for name in (OLD, MITO)}
    listing = read_listing(str(folder))
    assert listing.files == (
        ListedFile("2020-11-07", f"{folder}/{OLD}", md5[OLD]),
        ListedFile("2022-05-25", f"{folder}/{MITO}", md5[MITO]),
    )
    assert listing.unfinished == {}
    assert read_listing(f"{folder}/").files == listing.files
    assert names(read_listing(folder.as_uri())) == names(listing)
    assert listing.files[0].md5 == md5[OLD]


@pytest.mark.nightly
def test_a_prefix_of_an_s3_bucket_is_listed(tmp_path: Path) -> None:
    with running_s3() as s3:
        s3.mkdir("pub")
        bare = {name: name.encode() for name in (OLD, NEW)}
        s3.pipe({f"pub/bare/{name}": content for name, content in bare.items()})
        s3.pipe({f"pub/weekly/{name}": content for name, content in bare.items()})
        s3.pipe({f"pub/weekly/{name}.md5": md5_line(content, name) for name, content in bare.items()})
        s3.pipe(f"pub/weekly/{MITO}", b"half")

        weekly = quick("s3://pub/weekly")
        assert names(weekly) == [OLD, NEW]
        assert [file.md5 for file in weekly.files] == [md5_line(c, "").split()[0].decode() for c in bare.values()]
        assert set(weekly.unfinished) == {MITO}
        fetch(weekly.files[1].url, tmp_path / NEW, md5=weekly.files[1].md5)

        first = quick("s3://pub/bare/")
        assert names(first) == [OLD, NEW]
        assert [file.md5 for file in first.files] == [None, None]
        assert first.files == quick("s3://pub/bare/").files
        s3.pipe(f"pub/bare/{NEW}", b"other content".ljust(len(NEW)))
        assert quick("s3://pub/bare/").files[1].identity != first.files[1].identity
        s3.pipe("pub/fresh/README.txt", b"")
        assert names(quick("s3://pub/fresh")) == []
        s3.pipe(f"pub/fresh/{OLD}", b"content")
        assert names(quick("s3://pub/fresh")) == [OLD]
        with pytest.raises(FetchError, match="no such listing"):
            quick("s3://pub/nowhere")
        with pytest.raises(FetchError):
            quick("s3://no-such-bucket/weekly")


NCBI_PAGE = """<html><head><title>Index of /pub/clinvar/vcf_GRCh38/weekly</title></head><body><h1>Index</h1><pre>
<a href="?C=N;O=D">Name</a>
<a href="/pub/clinvar/vcf_GRCh38/">Parent Directory</a>
<a href="archive_2.0/">archive_2.0/</a>  2026-01-01 00:00    -
<a href="clinvar_20260226.vcf.gz">clinvar_20260226.vcf.gz</a>       2026-02-27 10:11  183M
<A HREF='clinvar_20260226.vcf.gz.md5'>clinvar_20260226.vcf.gz.md5</A>
<a class="x" href="/data/clinvar%5F20201107.vcf.gz?raw=1">clinvar_20201107.vcf.gz</a>
<a href="https://elsewhere.example/clinvar_20201107.vcf.gz.md5">clinvar_20201107.vcf.gz.md5</a>
<a href="//[::1/clinvar_20190101.vcf.gz">a host that is none</a>
<a href="../../etc/clinvar_20180101.vcf.gz">leads out, where nothing is</a>
clinvar_19990101.vcf.gz is mentioned but not linked
</pre></body></html>"""


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_directory_page_is_listed_and_never_leads_elsewhere(site: WebServer, slash: str) -> None:
    serve(site, OLD, NEW)
    site.files["data/"] = NCBI_PAGE.encode()
    base = site.url("data")
    assert [file.url for file in quick(base + slash).files] == [f"{base}/{OLD}", f"{base}/{NEW}"]
    assert {path for path, _ in site.requests} == {"/data/", f"/data/{OLD}.md5", f"/data/{NEW}.md5"}


def test_a_web_server_without_checksums_is_asked_about_each_file(site: WebServer) -> None:
    serve(site, OLD)
    site.files["data/"] = directory_page([OLD])
    (file,) = quick(site.url("data")).files
    assert file.identity == f'{len(OLD)} bytes, "v1"'
    site.etag = '"v2"'
    assert quick(site.url("data")).files[0].identity != file.identity


def test_server_errors_are_retried(site: WebServer) -> None:
    url = serve(site, OLD, NEW)
    site.statuses = [503]
    assert names(quick(url)) == [OLD, NEW]
    site.statuses = [503] * 9
    with pytest.raises(FetchError, match="HTTP 503"):
        quick(url)


@pytest.mark.parametrize(
    "page",
    [b"", b"\x00\xff" * 1000, b'{"files": []}', b"<html><body>Moved</body></html>", b'<a href="">', b"<a " * 3_000_000],
    ids=["empty", "binary", "json", "no links", "empty link", "tags without end"],
)
def test_a_page_that_is_no_listing_offers_nothing(site: WebServer, page: bytes) -> None:
    site.files["data/"] = page
    listing = quick(site.url("data"))
    assert (listing.files, listing.unfinished) == ((), {})


def test_a_page_of_20_mb_is_refused(site: WebServer) -> None:
    site.files["data/"] = directory_page([OLD]).ljust(20 << 20)
    with pytest.raises(FetchError, match="file is too large: expected at most 16,777,216 bytes"):
        quick(site.url("data"))


class Hanging(dict[str, bytes]):
    """Files of which some do not come until they are let go."""

    def __init__(self, files: dict[str, bytes], *stuck: str) -> None:
        super().__init__(files)
        self.stuck, self.let_go = stuck, threading.Event()

    def get(self, key: str, default: object = None) -> bytes | None:  # type: ignore[override]
        if key in self.stuck:
            self.let_go.wait(60)
        return super().get(key)


def test_a_server_that_does_not_answer_ends_the_reading_in_time(site: WebServer) -> None:
    url = serve(site, OLD)
    site.files = stuck = Hanging(site.files, "data/")
    with pytest.raises(FetchError, match=r"did not answer within 0\.5 s\. Run it again later"):
        quick(url, within_s=0.5)
    stuck.let_go.set()


def test_a_checksum_that_does_not_come_in_time_stops_no_other(site: WebServer) -> None:
    url = serve(site, OLD, MITO, NEW)
    site.files = stuck = Hanging(site.files, f"data/{MITO}.md5")
    listing = quick(url, within_s=3)
    assert names(listing) == [OLD, NEW]
    assert "did not answer within 3 s" in listing.unfinished[MITO]
    stuck.let_go.set()


def test_a_file_without_a_good_checksum_is_still_arriving(folder: Path) -> None:
    (folder / NEW).write_bytes(b"half")
    listing = read_listing(str(folder))
    assert names(listing) == [OLD, MITO]
    assert listing.unfinished == {NEW: f"{NEW} has no checksum yet"}
    for content in (b"", b"\n", b"<html>busy</html>", b"0123", b"\xff\xfe", b"f" * 31 + b"g  " + NEW.encode()):
        (folder / f"{NEW}.md5").write_bytes(content)
        listing = read_listing(str(folder))
        assert names(listing) == [OLD, MITO]
        assert f"states no MD5 of '{NEW}'" in listing.unfinished[NEW]
    publish(folder, NEW)
    assert names(read_listing(str(folder))) == [OLD, MITO, NEW]


def test_a_place_without_checksums_is_taken_as_it_is(folder: Path) -> None:
    for file in folder.glob("*.md5"):
        file.unlink()
    before = read_listing(str(folder))
    assert names(before) == [OLD, MITO]
    assert [file.md5 for file in before.files] == [None, None]
    assert read_listing(str(folder)).files == before.files
    os.utime(folder / OLD, (1, 1))
    after = read_listing(str(folder))
    assert after.files[0].identity != before.files[0].identity
    assert after.files[1] == before.files[1]


def test_identity_of_what_is_not_there(folder: Path, site: WebServer) -> None:
    for place in (str(folder), site.url("data"), "memory://nowhere"):
        for published in (True, False):
            assert read_identity(f"{place}/{NEW}", published=published) is None


def test_files_of_one_date_are_listed_with_the_plain_one_first(tmp_path: Path) -> None:
    for word in (".b", "", ".a"):
        publish(tmp_path, f"clinvar_20260226{word}.vcf.gz")
    assert names(read_listing(str(tmp_path))) == [NEW, "clinvar_20260226.a.vcf.gz", "clinvar_20260226.b.vcf.gz"]


def test_places_that_are_no_listing(folder: Path, site: WebServer) -> None:
    for url in (f"{folder}/nowhere", f"{folder}/README.txt", site.url("nowhere"), "memory://no/such/prefix"):
        with pytest.raises(FetchError, match="no such listing"):
            read_listing(url)
    with pytest.raises(FetchError, match="download failed"):
        read_listing("nonsense://x")
