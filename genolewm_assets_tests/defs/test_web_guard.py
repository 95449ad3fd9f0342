"""The guard of a root's web server tells requests of this machine from those that a page of another site sends."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import EmptyWorkspaceTarget
from dagster_webserver.app import create_app_from_workspace_process_context
from dagster_webserver.webserver import DagsterWebserver

from genolewm_assets.defs.web_guard import (
    UI_HOSTS,
    Application,
    Message,
    Receive,
    Scope,
    Send,
    WebGuard,
    find_refusal,
    parse_hosts,
)
from genolewm_assets.errors import ConfigurationError
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.rows import each_row

FROM_HERE = {"sec_fetch_site": "same-origin", "sec_fetch_mode": "cors", "sec_fetch_dest": "empty"}
LINK = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
SCRIPT = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors", "sec_fetch_dest": "empty"}
HUB = "hub.example.org"


def request(
    method: str = "POST", host: str = "127.0.0.1:3000", path: str = "/graphql", query: str = "", **headers: str
) -> dict[str, Any]:
    """Return the ASGI scope of a request; underscores in names of headers stand for hyphens."""
    named = {"host": host, **{name.replace("_", "-"): value for name, value in headers.items()}}
    pairs = [(name.encode(), value.encode()) for name, value in named.items() if value]
    return {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": pairs}


def websocket(**headers: str) -> dict[str, Any]:
    """Return the ASGI scope of a handshake, which has no method."""
    scope = {**request(**headers), "type": "websocket"}
    del scope["method"]
    return scope


ADMITTED = {
    "a program": request(),
    "the page itself": request(origin="http://127.0.0.1:3000", **FROM_HERE),
    "by name": request(host="localhost:3000", origin="http://localhost:3000", **FROM_HERE),
    "by its IPv6 address": request(host="[::1]:3000", origin="http://[::1]:3000", **FROM_HERE),
    "forwarded to another port": request(host="localhost:9876", origin="http://localhost:9876", **FROM_HERE),
    "forwarded to port 80": request(host="localhost", origin="http://localhost", **FROM_HERE),
    "in capitals": request(host="LocalHost:3000", origin="http://localhost:3000"),
    "websocket of the page": websocket(origin="http://127.0.0.1:3000", **FROM_HERE),
    "websocket of a program": websocket(),
    "an address typed": request("GET", path="/", sec_fetch_site="none", sec_fetch_mode="navigate"),
    "a link followed": request("GET", path="/runs/x", **LINK),
    "a query in the address": request("GET", query="query=%7Bversion%7D"),
    "a search for the word": request("GET", path="/runs", query="q=mutation", **FROM_HERE),
}

REFUSED = {
    "a name bound to this machine": (request(host="evil.test:3000", origin="http://evil.test:3000"), "Host"),
    "a name that begins as loopback": (request(host="127.0.0.1.evil.test"), "Host"),
    "a name that ends as loopback": (request(host="evil.localhost:3000"), "Host"),
    "a user before the name": (request(host="localhost@evil.test"), "Host"),
    "another machine": (request(host="192.0.2.1:3000"), "Host"),
    "no host": (request(host=""), "Host"),
    "two hosts": ({**request(), "headers": [(b"host", b"localhost"), (b"host", b"evil.test")]}, "Host"),
    "another site": (request(origin="http://evil.test"), "Origin"),
    "another port": (request(origin="http://127.0.0.1:8888"), "Origin"),
    "another name of loopback": (request(origin="http://localhost:3000"), "Origin"),
    "another scheme": (request(origin="https://127.0.0.1:3000"), "Origin"),
    "a page in a sandbox": (request(origin="null"), "Origin"),
    "two origins": (request(origin="http://127.0.0.1:3000,http://evil.test"), "Origin"),
    "a form that is sent": (request(origin="http://evil.test", **LINK), "Origin"),
    "a form without its origin": (request(**LINK), "Sec-Fetch-Site"),
    "a picture": (request("GET", **{**SCRIPT, "sec_fetch_dest": "image"}), "Sec-Fetch-Site"),
    "a frame": (request("GET", path="/", **{**LINK, "sec_fetch_dest": "iframe"}), "Sec-Fetch-Site"),
    "another port's picture": (request("GET", **{**SCRIPT, "sec_fetch_site": "same-site"}), "Sec-Fetch-Site"),
    "websocket of another site": (websocket(origin="http://evil.test"), "Origin"),
    "websocket at a foreign name": (websocket(host="evil.test:3000", origin="http://evil.test:3000"), "Host"),
    "a mutation in a link": (request("GET", query="query=mutation%7Bx%7D", **LINK), "mutation"),
    "a mutation in a picture of an old browser": (request("GET", query="query=%6dutation+%7Bx%7D"), "mutation"),
}


@each_row("name", ADMITTED)
def test_requests_of_this_machine_pass(name: str) -> None:
    assert find_refusal(ADMITTED[name]) is None


@each_row("name", REFUSED)
def test_foreign_requests_are_refused_with_the_reason(name: str) -> None:
    scope, reason = REFUSED[name]
    assert reason in find_refusal(scope)


def test_an_allowed_address_passes_as_it_is_shown_in_the_browser() -> None:
    allowed = parse_hosts([HUB.upper(), "gpu1:3000"])
    assert find_refusal(request(host=HUB, origin=f"https://{HUB}"), allowed) is None
    assert find_refusal(request(host="gpu1:3000", origin="http://gpu1:3000"), allowed) is None
    # A proxy may give the server's own name in place of the one that the browser shows.
    assert find_refusal(request(host="127.0.0.1:3000", origin=f"https://{HUB}"), allowed) is None
    assert find_refusal(request(host="gpu1:8888", origin="http://gpu1:8888"), allowed) is not None
    assert find_refusal(request(host="gpu1:3000", origin="http://gpu1:8888"), allowed) is not None


@each_row("text", ["http://hub", "hub/path", "*", "a b", "hub:port", ""])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"--allow-host.*expected NAME or NAME:PORT"):
        parse_hosts([text])


def answers(scope: Scope) -> tuple[list[Message], int]:
    """Return what the guard sends for a request, and how often it asked the application behind it."""
    asked: list[Scope] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(scope)
        if scope["type"] == "http":
            headers = [(b"content-security-policy", b"default-src 'self'")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})

    return sent_by(WebGuard(application), scope), len(asked)


def sent_by(application: Application, scope: Scope) -> list[Message]:
    """Return what an application sends for a request."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(application(scope, receive, send))
    return sent


def test_the_web_server_of_a_root_is_guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the settings of the checkout and the calls that Dagster's command makes."""
    monkeypatch.setattr(DagsterWebserver, "create_asgi_app", DagsterWebserver.create_asgi_app)  # is exchanged below
    monkeypatch.setenv(UI_HOSTS, HUB)
    shutil.copyfile(REPOSITORY / "dagster.yaml", tmp_path / "dagster.yaml")
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        instance.optimize_for_webserver(statement_timeout=1_000, pool_recycle=-1, max_overflow=10)
        with WorkspaceProcessContext(instance, EmptyWorkspaceTarget()) as context:
            served = create_app_from_workspace_process_context(context)
            for host, status in {"127.0.0.1:3000": 200, HUB: 200, "evil.test": 403}.items():
                asked = {**request("GET", host, "/server_info"), "raw_path": b"/server_info"}
                assert sent_by(served, asked)[0]["status"] == status, host


def test_what_is_refused_does_not_reach_the_application() -> None:
    sent, asked = answers(request(origin="http://evil.test"))
    assert (asked, sent[0]["status"]) == (0, 403)
    assert b"Origin" in sent[1]["body"]
    sent, asked = answers(websocket(origin="http://evil.test"))
    assert (asked, [message["type"] for message in sent]) == (0, ["websocket.close"])


def test_answers_cannot_be_framed_and_keep_their_own_policy() -> None:
    sent, asked = answers(request("GET", path="/"))
    policies = [value for name, value in sent[0]["headers"] if name == b"content-security-policy"]
    assert (asked, policies) == (1, [b"default-src 'self'", b"frame-ancestors 'none'"])
    assert (b"x-frame-options", b"DENY") in sent[0]["headers"]


def test_start_and_end_of_the_server_pass() -> None:
    assert answers({"type": "lifespan"}) == ([], 1)
