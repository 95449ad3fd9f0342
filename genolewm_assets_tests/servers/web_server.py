"""A web server on 127.0.0.1 that misbehaves on demand."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_PIECE_S = 0.02


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
    #: Bytes of bodies a second, of one path or of all; None: as fast as they are taken.
    rate: float | None = None
    slow: str = ""
    #: How many bytes of bodies were sent, in all and by path.
    sent: int = 0
    sent_of: Counter[str] = field(default_factory=Counter)
    #: How many body bytes the next requests get before nothing more comes, until the server ends; None: all.
    stalls: list[int | None] = field(default_factory=list)
    #: Value of Retry-After of the answers whose status is an error.
    retry_after: str | None = None
    #: Where paths are redirected to.
    moved: dict[str, str] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)
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
        if self.path in site.moved:
            self._refuse(302, Location=site.moved[self.path])
            return
        if status != 200 or content is None:
            self._refuse(status if status != 200 else 404, **{"Retry-After": site.retry_after})
            return
        start, end = 0, len(content)
        if wanted and site.ranges and self.headers.get("If-Range") in (None, site.etag):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last) + 1, end) if last else end
            if start >= len(content):
                self._refuse(416)
                return
        self._answer(content, start, end, ranged=(start, end) != (0, len(content)))

    def _refuse(self, status: int, **headers: str | None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        for name, value in headers.items():
            if value is not None:
                self.send_header(name, value)
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
        stall = site.stalls.pop(0) if site.stalls else None
        self._send(content[start:end][: stall if cut is None else cut])
        if stall is not None:
            site.ended.wait()
        if cut is not None:
            time.sleep(0.05)  # what a client has not read when the connection breaks is lost to it
            self.close_connection = True

    def _send(self, body: bytes) -> None:
        """Send a body; at a limited rate, in pieces of 20 ms."""
        site = self.site
        rate = site.rate if self.path.lstrip("/").startswith(site.slow) else None
        piece = len(body) if rate is None else max(1, int(rate * _PIECE_S))
        for at in range(0, len(body), max(1, piece)):
            due = time.monotonic() + _PIECE_S
            self.wfile.write(body[at : at + piece])
            site.sent += len(body[at : at + piece])
            site.sent_of[self.path.lstrip("/")] += len(body[at : at + piece])
            if rate is not None:
                time.sleep(max(0.0, due - time.monotonic()))


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
        try:
            yield site
        finally:
            site.ended.set()


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
