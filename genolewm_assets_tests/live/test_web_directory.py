"""The web server of a folder is one that the project's own readers take for the public one."""

from __future__ import annotations

from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from genolewm_assets.sources.clinvar.listing import read_listing
from genolewm_assets.sources.files.fetch import fetch
from genolewm_assets_tests.servers.web_directory import web_directory

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
