"""Pictures served beside Dagster's pages: ``/genolewm/pictures/<asset>``, the first picture of a materialisation.

Dagster shows a picture of the metadata only after a click, but one with an address at once.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import parse_qs

import dagster as dg

from genolewm_assets.defs.display import PICTURE_PATH, first_picture
from genolewm_assets.defs.web_guard import Application, Receive, Scope, Send

_NO_PICTURE = (
    b'<svg xmlns="http://www.w3.org/2000/svg" width="560" height="30"><text x="2" y="20" font-size="13" '
    b'font-family="sans-serif" fill="#666">The latest materialisation has no picture.</text></svg>'
)
#: Whoever opens a picture in a tab of its own runs nothing that it holds.
_HEADERS = (
    (b"content-type", b"image/svg+xml"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'; sandbox"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-cache"),
)


_SIZE = re.compile(rb' width="([0-9.]+)pt" height="([0-9.]+)pt"')
#: Width and height in points that a picture keeps: of a description the UI shows 260 CSS pixels, and the rest after a
#: click; a cell of the metadata is 279 wide where the window is 1,366.
_IN_DESCRIPTION, _IN_CELL = (420.0, 142.5), (195.0, 195.0)


def _shrink(picture: bytes, width_pt: float, height_pt: float) -> bytes:
    """Return an SVG with the size of its root reduced to a width and a height."""

    def fit(size: re.Match[bytes]) -> bytes:
        width, height = map(float, size.groups())
        scale = min(1.0, width_pt / width, height_pt / height)
        return b' width="%.1fpt" height="%.1fpt"' % (width * scale, height * scale)

    return _SIZE.sub(fit, picture, count=1)


class WebPictures:
    """ASGI application that answers requests for pictures, and passes all others on."""

    def __init__(self, app: Application, instance: dg.DagsterInstance) -> None:
        self.app, self.instance = app, instance

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        path = str(scope.get("path", ""))
        if scope["type"] != "http" or not path.startswith(f"{PICTURE_PATH}/"):
            await self.app(scope, receive, send)
            return
        query = parse_qs(scope["query_string"].decode("latin-1"))
        run_id, entry, size = (query.get(name, [""])[0] for name in ("run", "entry", "size"))
        asset = path.removeprefix(f"{PICTURE_PATH}/")
        picture = await asyncio.to_thread(find_picture, self.instance, asset, run_id=run_id, entry=entry)
        if picture is not None and size != "full":
            picture = _shrink(picture, *(_IN_CELL if run_id else _IN_DESCRIPTION))
        await send({"type": "http.response.start", "status": 404 if picture is None else 200, "headers": [*_HEADERS]})
        await send({"type": "http.response.body", "body": _NO_PICTURE if picture is None else picture})


def find_picture(instance: dg.DagsterInstance, asset: str, *, run_id: str = "", entry: str = "") -> bytes | None:
    """Return a picture of the latest materialisation of an asset, or of the one in a run, as SVG; None without one."""
    key = dg.AssetKey(asset.split("/"))
    if run_id:
        logged = instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
        made = [each.asset_materialization for each in logged]
    else:
        latest = instance.get_latest_materialization_event(key)
        made = [latest.asset_materialization] if latest else []
    for event in made:
        shown = event.metadata if event is not None and event.asset_key == key else {}
        if (picture := first_picture(shown, entry)) is not None:
            return picture
    return None


def serve_pictures() -> None:
    """Serve pictures beside every application that Dagster's web server creates in this process from now on."""
    from dagster_webserver.webserver import DagsterWebserver

    create = DagsterWebserver.create_asgi_app

    def create_with_pictures(server: Any, **options: Any) -> WebPictures:
        return WebPictures(create(server, **options), server._process_context.instance)

    DagsterWebserver.create_asgi_app = create_with_pictures  # type: ignore[assignment, method-assign]
