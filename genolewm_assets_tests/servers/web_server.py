"""A web server on 127.0.0.1 that misbehaves on demand."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class WebServer:
    """What is served, how, and what was asked for."""

    port: int = 0
    files: dict[str, bytes] = field(default_factory=dict)
    #: Sent as ETag and honoured in If-Range; None: no ETag.
    etag: str | None = '"v1"'
    ranges: bool = True
    #: Status codes of the next requests, in order; then everything works.
    statuses: list[int] = field(default_factory=list)
    #: How many body bytes the next requests get before the connection breaks; None: all.
    cuts: list[int | None] = field(default_factory=list)
    #: Whether HEAD is known.
    head: bool = True
    #: Path and Range header of every request.
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    #: Paths of the requests among them that were HEAD.
    headed: list[str] = field(default_factory=list)
    #: Called before the request of this number (from 1) is answered.
    on_request: dict[int, Callable[[], None]] = field(default_factory=dict)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"


class QuietHandler(BaseHTTPRequestHandler):
    """Speaks HTTP/1.1, and prints nothing."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


class _Handler(QuietHandler):
    site: WebServer

    def do_HEAD(self) -> None:
        self.site.headed.append(self.path)
        if self.site.head:
            self.do_GET()
        else:
            self.site.requests.append((self.path, None))
            self._refuse(501)

    def do_GET(self) -> None:
        site = self.site
        wanted = self.headers.get("Range")
        site.requests.append((self.path, wanted))
        if hook := site.on_request.get(len(site.requests)):
            hook()
        status = site.statuses.pop(0) if site.statuses else 200
        content = site.files.get(self.path.lstrip("/"))
        if status != 200 or content is None:
            self._refuse(status if status != 200 else 404)
            return
        start, end = 0, len(content)
        if wanted and site.ranges and self.headers.get("If-Range") in (None, site.etag):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last) + 1, end) if last else end
            if start >= len(content):
                self._refuse(416)
                return
        self._answer(content, start, end, ranged=(start, end) != (0, len(content)))

    def _refuse(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _answer(self, content: bytes, start: int, end: int, *, ranged: bool) -> None:
        site = self.site
        self.send_response(206 if ranged else 200)
        self.send_header("Content-Length", str(end - start))
        if ranged:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
        if site.etag:
            self.send_header("ETag", site.etag)
        self.end_headers()
        if self.command == "HEAD":
            return
        cut = site.cuts.pop(0) if site.cuts else None
        self.wfile.write(content[start:end] if cut is None else content[start:end][:cut])
        if cut is not None:
            time.sleep(0.05)  # what a client has not read when the connection breaks is lost to it
            self.close_connection = True


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over clients that leave in the middle of an answer, as one does that has read enough."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def running_server() -> Iterator[WebServer]:
    site = WebServer()
    with serving(type("Handler", (_Handler,), {"site": site})) as site.port:
        yield site


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Answer requests on a free port of 127.0.0.1, which is returned, until the block ends."""
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
