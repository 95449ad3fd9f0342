"""A folder on 127.0.0.1 as the public ClinVar server shows one: a page of links, and files by range."""

from __future__ import annotations

import hashlib
import html
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote, unquote

from genolewm_assets_tests.servers.web_server import QuietHandler, serving

_HELD_S = 600.0


@dataclass
class WebDirectory:
    """A folder, read anew for every request, and method and path of every request."""

    folder: Path
    port: int = 0
    requests: list[tuple[str, str]] = field(default_factory=list)
    _held: dict[str, threading.Event] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def publish(self, source: Path, name: str | None = None) -> Path:
        """Upload a file completely, its checksum last."""
        file = self.folder / (name or source.name)
        file.write_bytes(source.read_bytes())
        return self.publish_checksum(file)

    def publish_checksum(self, file: Path) -> Path:
        digest = hashlib.md5(file.read_bytes()).hexdigest()
        file.with_name(f"{file.name}.md5").write_text(f"{digest}  {file.name}\n")
        return file

    def hold(self, *names: str) -> None:
        """Answer no request for these files until :meth:`release`."""
        self._held.update((f"/{name}", threading.Event()) for name in names)

    def release(self) -> None:
        """Answer everything again, also the requests that wait."""
        for event in self._held.values():
            event.set()
        self._held.clear()

    def wait_while_held(self, path: str) -> None:
        if event := self._held.get(path):
            event.wait(_HELD_S)


class _Handler(QuietHandler):
    site: WebDirectory

    def do_GET(self) -> None:  # noqa: N802 - the base class's name
        path = unquote(self.path.partition("?")[0])
        self.site.requests.append((self.command, path))
        self.site.wait_while_held(path)
        place = self.site.folder / path.strip("/")
        with suppress(BrokenPipeError, ConnectionResetError):  # whoever asked may be dead by now
            if ".." in place.parts or not place.exists():
                self._send(404, b"not found", "text/plain")
            elif place.is_dir():
                self._send(200, _page(place, path), "text/html; charset=utf-8")
            else:
                self._send_file(place)

    do_HEAD = do_GET  # noqa: N815

    def _send_file(self, file: Path) -> None:
        content, stat = file.read_bytes(), file.stat()
        etag = f'"{stat.st_size:x}-{stat.st_mtime_ns:x}"'
        headers = {"Accept-Ranges": "bytes", "ETag": etag, "Last-Modified": formatdate(stat.st_mtime, usegmt=True)}
        wanted = self.headers.get("Range")
        if wanted is None or self.headers.get("If-Range") not in (None, etag):
            self._send(200, content, "application/octet-stream", headers)
            return
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        start, end = int(first), min(int(last or len(content) - 1), len(content) - 1)
        if start >= len(content):
            self._send(416, b"", "text/plain", {"Content-Range": f"bytes */{len(content)}"})
            return
        headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
        self._send(206, content[start : end + 1], "application/octet-stream", headers)

    def _send(self, status: int, body: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _page(folder: Path, path: str) -> bytes:
    """Return the page in the manner of the public server: a link, a time and a size per line."""
    lines = []
    for entry in sorted(folder.iterdir()):
        name = f"{entry.name}/" if entry.is_dir() else entry.name
        when = datetime.fromtimestamp(entry.stat().st_mtime, UTC).strftime("%Y-%m-%d %H:%M")
        link = f'<a href="{quote(name)}">{html.escape(name)}</a>'
        lines.append(f"{link}{' ' * max(1, 60 - len(name))}{when}  {entry.stat().st_size / 1024:.0f}K")
    title = html.escape(f"Index of {path}")
    body = "\n".join(lines)
    page = f'<html><head><title>{title}</title></head><body><h1>{title}</h1><pre><a href="../">Parent Directory</a>'
    return f"{page}\n{body}\n</pre></body></html>\n".encode()


@contextmanager
def web_directory(folder: Path) -> Iterator[WebDirectory]:
    folder.mkdir(parents=True, exist_ok=True)
    site = WebDirectory(folder)
    with serving(type("Handler", (_Handler,), {"site": site})) as site.port:
        try:
            yield site
        finally:
            site.release()
