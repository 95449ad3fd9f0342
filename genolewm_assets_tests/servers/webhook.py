"""Webhooks on this machine: one that records what is posted, and others that never take it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from genolewm_assets_tests.servers.web_server import QuietHandler, serving


@dataclass
class Webhook:
    """What was posted; answers have the next of ``statuses``, then ``status``."""

    url: str = ""
    status: int = 200
    statuses: list[int] = field(default_factory=list)
    posted: list[dict[str, object]] = field(default_factory=list)


@contextmanager
def webhook_server() -> Iterator[Webhook]:
    site = Webhook()

    class Handler(QuietHandler):
        def do_POST(self) -> None:  # noqa: N802 - the base class's name
            assert self.headers["Content-Type"] == "application/json"
            site.posted.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(site.statuses.pop(0) if site.statuses else site.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

    with serving(Handler) as port:
        site.url = f"http://127.0.0.1:{port}/hook?token=secret"
        yield site


@contextmanager
def mute_server() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


@contextmanager
def dripping_server() -> Iterator[str]:
    """Answer with a header that never ends: a byte at a time, so that no socket ever times out."""
    stop = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
            while not stop.wait(0.05):
                try:
                    connection.sendall(b"x")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            stop.set()
            thread.join()


@contextmanager
def closed_port() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    yield f"http://127.0.0.1:{port}/"


@contextmanager
def another_scheme() -> Iterator[str]:
    yield "file:///etc/hostname"


@contextmanager
def no_url() -> Iterator[str]:
    yield "http://[::1/hook?token=secret"
