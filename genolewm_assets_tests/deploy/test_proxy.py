"""The shipped nginx configuration in a real nginx before a real web server: without a password nothing gets through."""

from __future__ import annotations

import json
import socket
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dagster_webserver
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from genolewm_assets_tests.deploy.installation import Installation
from genolewm_assets_tests.deploy.test_units import loaded
from genolewm_assets_tests.live.harness import wait_until
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.servers.proxy import NAME, PASSWORD, USER, Proxy, proxy_before

QUERY = json.dumps({"query": "{ version }"})
WEBSOCKET = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol": "graphql-ws",
}
BUILD = Path(dagster_webserver.__file__).parent / "webapp/build"
STATIC = sorted(f"/{path.relative_to(BUILD)}" for path in BUILD.rglob("*") if path.is_file() and "[" not in path.name)


@pytest.fixture(scope="module")
def proxy(installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    installation.start("code", "webserver")
    wait_until(lambda: loaded(installation.graphql), "the web server to start")
    with proxy_before(installation.port, tmp_path_factory.mktemp("nginx")) as running:
        yield running


def basic(user: str = USER, password: str = PASSWORD) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"}


def http(method: str, path: str, body: str = "", version: str = "1.1", **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/{version}", f"Host: {NAME}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body:
        lines += [f"Content-Length: {len(body)}"]
        lines += [] if "Content-Type" in headers else ["Content-Type: application/json"]
    # A header that is given replaces the one of that name above.
    kept = {line.split(":")[0].lower(): line for line in lines[1:]}
    return "\r\n".join([lines[0], *kept.values(), "", body]).encode()


def status(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1."), answer[:200]
    return int(answer.split(b" ", 2)[1])


def body(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


UNAUTHENTICATED = {
    "the page": http("GET", "/"),
    "a query": http("POST", "/graphql", QUERY),
    "what the server is": http("GET", "/server_info"),
    "websocket": http("GET", "/graphql", **WEBSOCKET),
    "upgrade to HTTP/2 in the clear": http("GET", "/", Upgrade="h2c", Connection="Upgrade, HTTP2-Settings"),
    "many slashes": http("GET", "////server_info"),
    "two dots": http("GET", "/x/../server_info"),
    "encoded dots": http("GET", "/x/%2e%2e/server_info"),
    "an encoded name": http("GET", "/%67raphql"),
    "a NUL": http("GET", "/server_info%00.png"),
    "an address as path": http("GET", f"https://{NAME}/server_info"),
    "HEAD": http("HEAD", "/"),
    "OPTIONS": http("OPTIONS", "/graphql"),
    "TRACE": http("TRACE", "/graphql"),
    "CONNECT": http("CONNECT", "127.0.0.1:3000"),
    "HTTP/1.0": http("GET", "/server_info", version="1.0"),
    "HTTP/1.1 without a host": b"GET /server_info HTTP/1.1\r\nConnection: close\r\n\r\n",
    "HTTP/0.9": b"GET /server_info\r\n",
    "another host": http("GET", "/server_info", Host="localhost"),
    "two requests in one": http("GET", "/", Connection="keep-alive") + http("GET", "/server_info"),
    "a request behind a body of two lengths": (
        f"POST / HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    ).encode()
    + http("GET", "/server_info"),
    "said to come from this machine": http("GET", "/server_info", **{"X-Forwarded-For": "127.0.0.1"}),
    "another path in a header": http("GET", "/", **{"X-Original-URL": "/server_info", "X-Rewrite-URL": "/server_info"}),
    "another user in a header": http("GET", "/server_info", **{"X-Remote-User": USER, "X-Forwarded-User": USER}),
    "wrong password": http("GET", "/server_info", **basic(password="incorrect horse")),
    "unknown user": http("GET", "/server_info", **basic(user="mallory")),
    "a password that begins right": http("GET", "/server_info", **basic(password=f"{PASSWORD}x")),
    "another scheme": http("GET", "/server_info", Authorization=f"Bearer {PASSWORD}"),
    "a script": http("GET", next(path for path in STATIC if path.endswith(".js"))),
}


@pytest.fixture(scope="module")
def refused(proxy: Proxy) -> dict[str, bytes]:
    """Answers to everything above, asked at once: each refusal takes a second."""
    proxy.ear.heard.clear()
    with ThreadPoolExecutor(32) as pool:
        return dict(zip(UNAUTHENTICATED, pool.map(proxy.ask, UNAUTHENTICATED.values()), strict=True))


def test_nothing_unauthenticated_reaches_the_web_server(proxy: Proxy, refused: dict[str, bytes]) -> None:
    assert proxy.ear.heard == []


#: Not even asked for a password: nginx refuses these as they are. None may be here that a browser can send.
MALFORMED = {"HTTP/0.9": None, "TRACE": 405, "CONNECT": 400, "HTTP/1.1 without a host": 400, "a NUL": 400}
MALFORMED |= {"a request behind a body of two lengths": 400}


@each_row("what", UNAUTHENTICATED)
def test_without_a_password_there_is_a_401_and_nothing_of_ours(what: str, refused: dict[str, bytes]) -> None:
    answer = refused[what]
    assert b"dagster" not in answer.lower()
    if what not in MALFORMED:
        assert status(answer) == 401
        assert b'www-authenticate: basic realm="genolewm"' in answer.lower()
    elif MALFORMED[what] is not None:
        assert status(answer) == MALFORMED[what]
    assert b"401 Authorization Required" in answer or what in {*MALFORMED, "HEAD"}


def test_with_the_password_the_page_and_its_files_are_there(proxy: Proxy) -> None:
    page = proxy.ask(http("GET", "/", **basic()))
    assert status(page) == 200
    assert b"/_next/static/" in page
    for path in (*[name for name in STATIC if name.endswith(".js")][:3], "/favicon.png"):
        answer = proxy.ask(http("GET", path, **basic()))
        assert status(answer) == 200
        assert body(answer) == (BUILD / path[1:]).read_bytes()


def test_the_password_ends_at_the_proxy(proxy: Proxy) -> None:
    proxy.ear.heard.clear()
    assert status(proxy.ask(http("GET", "/server_info", **basic()))) == 200
    heard = b"".join(proxy.ear.heard).lower()
    assert b"get /server_info http/1.1" in heard
    assert b"authorization" not in heard


def websocket(proxy: Proxy, **headers: str) -> ClientConnection:
    url, sock = f"wss://{NAME}:{proxy.https_port}/graphql", socket.create_connection(("127.0.0.1", proxy.https_port))
    options: dict[str, Any] = {"ssl": proxy.context, "subprotocols": ["graphql-ws"], "proxy": None}
    return connect(url, sock=sock, additional_headers=headers, **options)


def test_with_the_password_a_subscription_is_answered(proxy: Proxy) -> None:
    subscription = """subscription { pipelineRunLogs(runId: "no such run") {
        __typename ... on PipelineRunLogsSubscriptionFailure { missingRunId } } }"""
    origin = f"https://{NAME}:{proxy.https_port}"
    with websocket(proxy, Origin=origin, **basic()) as channel:
        channel.send(json.dumps({"type": "connection_init", "payload": {}}))
        assert json.loads(channel.recv(20)) == {"type": "connection_ack"}
        channel.send(json.dumps({"id": "1", "type": "start", "payload": {"query": subscription}}))
        answer = json.loads(channel.recv(20))
    assert answer["payload"]["data"]["pipelineRunLogs"]["missingRunId"] == "no such run"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [({}, 401), (basic(password="x"), 401), ({**basic(), "Origin": "https://elsewhere.example"}, 403)],
)
def test_other_subscriptions_are_refused(headers: dict[str, str], expected: int, proxy: Proxy) -> None:
    proxy.ear.heard.clear()
    with pytest.raises(InvalidStatus) as refusal, websocket(proxy, **headers):
        pass
    assert refusal.value.response.status_code == expected
    assert proxy.ear.heard == []


FROM_ELSEWHERE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
FORGED = {
    "a script of another site": http("POST", "/graphql", QUERY, Origin="https://elsewhere.example", **basic()),
    "a frame without an origin": http("POST", "/graphql", QUERY, Origin="null", **basic()),
    "an origin that begins like ours": http("POST", "/graphql", QUERY, Origin=f"https://{NAME}.elsewhere", **basic()),
    "our name without TLS": http("POST", "/graphql", QUERY, Origin=f"http://{NAME}", **basic()),
    "an image of another site": http("GET", "/graphql?query=%7Bversion%7D", **FROM_ELSEWHERE, **basic()),
}


@each_row("what", FORGED)
def test_a_browser_cannot_be_made_to_act_by_another_site(what: str, proxy: Proxy) -> None:
    proxy.ear.heard.clear()
    assert status(proxy.ask(FORGED[what])) == 403
    assert proxy.ear.heard == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": f"https://{NAME}", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
        {},
    ],
)
def test_our_own_pages_and_scripts_act(headers: dict[str, str], proxy: Proxy) -> None:
    assert status(proxy.ask(http("POST", "/graphql", QUERY, **headers, **basic()))) == 200


@pytest.mark.parametrize("credentials", [{}, basic()])
def test_browsers_are_told_what_not_to_allow(credentials: dict[str, str], proxy: Proxy) -> None:
    head = proxy.ask(http("GET", "/", **credentials)).partition(b"\r\n\r\n")[0].decode().lower().split("\r\n")
    wanted = (
        "strict-transport-security: max-age=",
        "x-frame-options: deny",
        "x-content-type-options: nosniff",
        "referrer-policy: same-origin",
        "content-security-policy: frame-ancestors 'none'",
    )
    for header in wanted:
        assert sum(line.startswith(header) for line in head) == 1
    assert "server: nginx" in head  # without its version


@pytest.mark.parametrize("request_", [http("GET", "/server_info"), http("POST", "/graphql", QUERY, **basic())])
def test_without_tls_there_is_only_the_way_to_tls(request_: bytes, proxy: Proxy) -> None:
    proxy.ear.heard.clear()
    answer = proxy.ask(request_, encrypted=False)
    assert status(answer) == 301
    assert f"Location: https://{NAME}/".encode() in answer
    assert proxy.ear.heard == []


def test_a_web_server_that_is_down_is_no_way_in(proxy: Proxy, installation: Installation) -> None:
    installation.kill("webserver")
    assert status(proxy.ask(http("GET", "/server_info"))) == 401
    assert status(proxy.ask(http("GET", "/server_info", **basic()))) == 502
