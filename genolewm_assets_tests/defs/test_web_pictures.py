"""The address of a picture: what it serves, to whom, and that it leads to nothing but pictures of the metadata."""

from __future__ import annotations

from xml.etree import ElementTree

import dagster as dg
import pytest

from genolewm_assets.defs.display.markdown import PICTURE_PATH
from genolewm_assets.defs.web_guard import Receive, Scope, Send, WebGuard
from genolewm_assets.defs.web_pictures import WebPictures
from genolewm_assets_tests.defs.test_web_guard import request, sent_by
from genolewm_assets_tests.pictures import size_px
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld


@pytest.fixture
def instance(built: BuiltWorld) -> dg.DagsterInstance:
    return built.instance


def get(
    instance: dg.DagsterInstance, path: str, query: str = "", **headers: str
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Return status, headers and body of an answer of the guarded server; 599 is what the UI answered."""

    async def ui(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 599, "headers": []})
        await send({"type": "http.response.body", "body": b"the UI"})

    start, body = sent_by(WebGuard(WebPictures(ui, instance)), request("GET", path=path, query=query, **headers))
    return start["status"], dict(reversed(start["headers"])), body["body"]


@each_row("asset", ["gnomad/shard", "clinvar/shard", "windows/index", "packages/audit", "mito/genomes"])
def test_the_latest_first_picture_fits_into_a_description(instance: dg.DagsterInstance, asset: str) -> None:
    status, headers, svg = get(instance, f"{PICTURE_PATH}/{asset}")
    assert (status, headers[b"content-type"]) == (200, b"image/svg+xml")
    small, full = map(ElementTree.fromstring, (svg, get(instance, f"{PICTURE_PATH}/{asset}", "size=full")[2]))
    width, height = size_px(small)
    assert width <= 560
    assert height <= 190
    # The same drawing: only the size of its root differs.
    assert (size_px(full)[0], full.attrib["viewBox"]) == (560, small.attrib["viewBox"])


def test_who_opens_a_picture_runs_nothing_in_it(instance: dg.DagsterInstance) -> None:
    _, headers, _ = get(instance, f"{PICTURE_PATH}/gnomad/shard", "size=full")
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert b"sandbox" in headers[b"content-security-policy"]
    assert b"default-src 'none'" in headers[b"content-security-policy"]


def test_a_run_and_an_entry_name_a_picture(instance: dg.DagsterInstance) -> None:
    of = dg.AssetRecordsFilter(dg.AssetKey(["gnomad", "shard"]), ["chr17"])
    (record,) = instance.fetch_materializations(of, limit=1).records
    status, _, svg = get(instance, f"{PICTURE_PATH}/gnomad/shard", f"run={record.run_id}&entry=af_spectrum")
    assert (status, size_px(ElementTree.fromstring(svg))[0]) == (200, 260)
    assert b"alleles of chr17" in svg
    assert get(instance, f"{PICTURE_PATH}/gnomad/shard", f"run={record.run_id}&entry=path")[0] == 404
    assert get(instance, f"{PICTURE_PATH}/clinvar/shard", f"run={record.run_id}")[0] == 404


@each_row("path", ["no/such", "../../etc/passwd", "reference/genome", "", "gnomad/shard/", "%00", "gnomad//shard"])
def test_what_has_no_picture_is_told_in_a_picture(instance: dg.DagsterInstance, path: str) -> None:
    status, headers, svg = get(instance, f"{PICTURE_PATH}/{path}")
    assert (status, headers[b"content-type"]) == (404, b"image/svg+xml")
    assert "no picture" in "".join(ElementTree.fromstring(svg).itertext())


def test_other_addresses_are_the_ui_s(instance: dg.DagsterInstance) -> None:
    assert [get(instance, path)[0] for path in ("/assets/gnomad/shard", PICTURE_PATH)] == [599, 599]


def test_a_page_of_another_site_gets_no_picture(instance: dg.DagsterInstance) -> None:
    foreign = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "image"}
    assert get(instance, f"{PICTURE_PATH}/gnomad/shard", **foreign)[0] == 403
