"""Guard around Dagster's web application: refuses requests that a page of another site sends.

Dagster's web server asks for no password and takes mutations in GET requests and in POST requests that a form can send.
``instance.RootInstance`` puts the guard around the web server of every root. The rules are those of ``deploy/nginx``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import unquote_plus

from genolewm_assets.errors import ConfigurationError

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Environment variable with the addresses at which people open the UI besides those of loopback, with commas between.
UI_HOSTS = "GENOLEWM_UI_HOSTS"

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_AUTHORITY = re.compile(r"(?P<name>[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")

#: Added to every answer: no page of another site shows the UI in a frame or reads from it.
_HEADERS = (
    (b"content-security-policy", b"frame-ancestors 'none'"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class WebGuard:
    """ASGI application that answers foreign requests with 403 and passes all others on; see :func:`find_refusal`."""

    def __init__(self, app: Application, hosts: Collection[str] = ()) -> None:
        self.app = app
        self.hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        if scope["type"] not in {"http", "websocket"}:
            await self.app(scope, receive, send)
        elif refusal := find_refusal(scope, self.hosts):
            await _refuse(scope["type"], f"{refusal}\n", send)
        else:
            await self.app(scope, receive, _adding_headers(send))


def find_refusal(scope: Scope, hosts: Collection[str] = ()) -> str | None:
    """Return why a request is refused, or None.

    A foreign ``Host`` is what a rebound DNS name sends. A browser states ``Origin`` or ``Sec-Fetch-Site``; programs
    state neither and pass.
    """
    headers = _Headers(scope["headers"])
    host = headers.only("host").lower()
    named = _AUTHORITY.fullmatch(host)
    if not named or (named["name"] not in _LOOPBACK and host not in hosts):
        return (
            f"Host: this server is not known under this name: expected {', '.join((*_LOOPBACK, *sorted(hosts)))}, "
            f"got {host!r}. To allow a name, start genolewm ui with --allow-host."
        )
    own = {f"http://{host}", *(f"{scheme}://{name}" for scheme in ("http", "https") for name in hosts)}
    if "origin" in headers and (origin := headers.only("origin").lower()) not in own:
        return f"Origin: a page of another site sent this request: expected 'http://{host}', got {origin!r}."
    method = str(scope.get("method", "GET"))
    if headers.only("sec-fetch-site") in {"cross-site", "same-site"} and not _follows_link(method, headers):
        return "Sec-Fetch-Site: a page of another site sent this request. Open the UI in a tab of its own."
    if method != "POST" and _holds_mutation(scope):
        return "A mutation in the address of a page is not run: send it with POST."
    return None


def parse_hosts(texts: Iterable[str]) -> list[str]:
    """Return addresses of the UI in lower case: ``NAME`` or ``NAME:PORT``, as a browser's address bar shows them."""
    hosts = [text.strip().lower() for text in texts]
    for host in hosts:
        if not _AUTHORITY.fullmatch(host):
            raise ConfigurationError(
                f"{UI_HOSTS} (--allow-host)",
                "this is not the address of a web server",
                expected="NAME or NAME:PORT without scheme and path, such as 'gpu1.example.org:3000'",
                got=repr(host),
            )
    return hosts


def guard_web_server() -> None:
    """Guard every application that Dagster's web server creates in this process from now on."""
    from dagster_webserver.webserver import DagsterWebserver

    hosts = parse_hosts(filter(None, os.environ.get(UI_HOSTS, "").split(",")))
    create = DagsterWebserver.create_asgi_app

    def create_guarded(server: Any, **options: Any) -> WebGuard:
        return WebGuard(create(server, **options), hosts)

    DagsterWebserver.create_asgi_app = create_guarded  # type: ignore[assignment, method-assign]


class _Headers:
    def __init__(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self._pairs = [(name.lower().decode("latin-1"), value.decode("latin-1")) for name, value in pairs]

    def __contains__(self, wanted: str) -> bool:
        return any(name == wanted for name, _ in self._pairs)

    def only(self, wanted: str) -> str:
        """Return the value of a header; empty without one, and all values with commas between if it is repeated."""
        return ",".join(value for name, value in self._pairs if name == wanted)


def _follows_link(method: str, headers: _Headers) -> bool:
    """Tell whether a browser opens a whole page, as it does where a person follows a link."""
    opened = (headers.only("sec-fetch-mode"), headers.only("sec-fetch-dest")) == ("navigate", "document")
    return opened and method in {"GET", "HEAD"}


def _holds_mutation(scope: Scope) -> bool:
    query = unquote_plus(scope["query_string"].decode("latin-1"))
    return str(scope["path"]).endswith("/graphql") and "mutation" in query


async def _refuse(kind: str, reason: str, send: Send) -> None:
    if kind == "websocket":
        # Before the handshake is accepted, this is an answer 403.
        await send({"type": "websocket.close", "code": 1008, "reason": reason.strip()})
        return
    plain = (b"content-type", b"text/plain; charset=utf-8"), (b"x-content-type-options", b"nosniff")
    await send({"type": "http.response.start", "status": 403, "headers": [*plain, *_HEADERS]})
    await send({"type": "http.response.body", "body": reason.encode()})


def _adding_headers(send: Send) -> Send:
    async def send_more(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
        await send(message)

    return send_more
