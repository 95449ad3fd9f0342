"""The address of a picture: what it serves, to whom, and that it leads to nothing but pictures of the metadata."""

from __future__ import annotations

import asyncio
from typing import Any
from xml.etree import ElementTree

import dagster as dg
import pytest

from genolewm_assets.defs.display.markdown import PICTURE_PATH
from genolewm_assets.defs.web_guard import Message, Receive, Scope, Send, WebGuard
from genolewm_assets.defs.web_pictures import WebPictures
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.graph.built_world import everything_built

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> dg.DagsterInstance:
    return everything_built(tmp_path_factory).instance


def get(
    instance: dg.DagsterInstance, path: str, query: str = "", **headers: str
) -> tuple[int, dict[bytes, bytes], bytes]:
    """Return status, headers and body of an answer of the guarded server; 599 is what the UI answered."""
    said: list[Message] = []

    async def ui(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 599, "headers": []})
        await send({"type": "http.response.body", "body": b"the UI"})

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        said.append(message)

    pairs = [
        (b"host", b"127.0.0.1:3000"),
        *((name.replace("_", "-").encode(), v.encode()) for name, v in headers.items()),
    ]
    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": query.encode(),
        "headers": pairs,
    }
    asyncio.run(WebGuard(WebPictures(ui, instance))(scope, receive, send))
    start, body = said
    return start["status"], dict(reversed(start["headers"])), body["body"]


def size(svg: bytes) -> tuple[int, int]:
    """Return width and height in CSS pixels."""
    root = ElementTree.fromstring(svg)
    width, height = (round(float(root.attrib[name].removesuffix("pt")) * 96 / 72) for name in ("width", "height"))
    return width, height


@each_row("asset", ["gnomad/shard", "clinvar/shard", "windows/index", "packages/audit", "mito/genomes"])
def test_the_latest_first_picture_fits_into_a_description(instance: dg.DagsterInstance, asset: str) -> None:
    status, headers, svg = get(instance, f"{PICTURE_PATH}/{asset}")
    assert (status, headers[b"content-type"]) == (200, b"image/svg+xml")
    width, height = size(svg)
    assert width <= 560
    assert height <= 190
    full = get(instance, f"{PICTURE_PATH}/{asset}", "size=full")[2]
    assert size(full)[0] == 560
    # The same drawing: only the size of its root differs.
    assert ElementTree.fromstring(full).attrib["viewBox"] == ElementTree.fromstring(svg).attrib["viewBox"]


def test_who_opens_a_picture_runs_nothing_in_it(instance: dg.DagsterInstance) -> None:
    _, headers, _ = get(instance, f"{PICTURE_PATH}/gnomad/shard", "size=full")
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert b"sandbox" in headers[b"content-security-policy"]
    assert b"default-src 'none'" in headers[b"content-security-policy"]


def test_a_run_and_an_entry_name_a_picture(instance: dg.DagsterInstance) -> None:
    of = dg.AssetRecordsFilter(dg.AssetKey(["gnomad", "shard"]), ["chr17"])
    (record,) = instance.fetch_materializations(of, limit=1).records
    status, _, svg = get(instance, f"{PICTURE_PATH}/gnomad/shard", f"run={record.run_id}&entry=af_spectrum")
    assert status == 200
    assert size(svg)[0] == 260
    assert b"alleles of chr17" in svg
    assert get(instance, f"{PICTURE_PATH}/gnomad/shard", f"run={record.run_id}&entry=path")[0] == 404
    assert get(instance, f"{PICTURE_PATH}/clinvar/shard", f"run={record.run_id}")[0] == 404


@each_row("path", ["no/such", "../../etc/passwd", "reference/genome", "", "gnomad/shard/", "%00", "gnomad//shard"])
def test_what_has_no_picture_is_told_in_a_picture(instance: dg.DagsterInstance, path: str) -> None:
    status, headers, svg = get(instance, f"{PICTURE_PATH}/{path}")
    assert (status, headers[b"content-type"]) == (404, b"image/svg+xml")
    assert "no picture" in "".join(ElementTree.fromstring(svg).itertext())


def test_other_addresses_are_the_ui_s(instance: dg.DagsterInstance) -> None:
    assert get(instance, "/assets/gnomad/shard")[0] == 599
    assert get(instance, PICTURE_PATH)[0] == 599


def test_a_page_of_another_site_gets_no_picture(instance: dg.DagsterInstance) -> None:
    foreign = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "image"}
    assert get(instance, f"{PICTURE_PATH}/gnomad/shard", **foreign)[0] == 403
