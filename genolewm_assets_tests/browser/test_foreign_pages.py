"""Pages of other sites, opened in the browser of a person whose UI runs, change and show nothing."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Browser, Page

from genolewm_assets_tests.live.graphql import ASSET_JOB, LOCATION, REPOSITORY, GraphQL
from genolewm_assets_tests.servers.chromium import require_chromium
from genolewm_assets_tests.servers.web_server import serving

_LAUNCH = """mutation { launchRun(executionParams: {
  selector: {repositoryLocationName: "%s", repositoryName: "%s", pipelineName: "%s",
             assetSelection: [{path: ["reference", "genome"]}]},
  mode: "default", runConfigData: "{}" }) { __typename } }"""
LAUNCH = " ".join((_LAUNCH % (LOCATION, REPOSITORY, ASSET_JOB)).split())

#: Ways in which a page sends a request; what comes back, it cannot read.
WAYS = {
    "a form in a frame": """([url, query]) => new Promise((done) => {
        const frame = document.createElement("iframe"); frame.name = "sink"; document.body.append(frame);
        const form = document.createElement("form"); form.method = "POST"; form.target = "sink";
        form.action = `${url}/graphql?query=${encodeURIComponent(query)}`; document.body.append(form);
        frame.onload = done; form.submit() })""",
}

_WEBSOCKET = """([url, query]) => new Promise((done) => {
    const socket = new WebSocket(url.replace("http", "ws") + "/graphql", "graphql-ws");
    socket.onerror = () => done("refused");
    socket.onopen = () => {
      socket.send(JSON.stringify({type: "connection_init"}));
      socket.send(JSON.stringify({type: "start", id: "1", payload: {query}})) };
    socket.onmessage = (message) => { if (JSON.parse(message.data).type !== "connection_ack") done(message.data) } })"""


class _EmptyPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>foreign</title><body></body>")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@pytest.fixture(scope="module")
def resolving_browser(browser: Browser) -> Iterator[Browser]:
    """Return a browser for which all names below ``test`` are bound to this machine, as a hostile DNS server says."""
    switches = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP *.test 127.0.0.1"]
    running = browser.browser_type.launch(executable_path=require_chromium(), args=switches)
    yield running
    running.close()


@pytest.fixture(params=["foreign.test", "127.0.0.1"])
def foreign_page(request: pytest.FixtureRequest, resolving_browser: Browser, server: str) -> Iterator[Page]:
    """Return a page of another site, or of another server of this machine."""
    assert server
    with serving(_EmptyPage) as port:
        page = resolving_browser.new_page()
        page.goto(f"http://{request.param}:{port}/")
        yield page
        page.close()


def runs(url: str) -> int:
    return len(GraphQL(url).runs())


@pytest.mark.parametrize("way", WAYS)
def test_a_foreign_page_launches_no_run(foreign_page: Page, server: str, way: str) -> None:
    before = runs(server)
    foreign_page.evaluate(WAYS[way], [server, LAUNCH])
    assert runs(server) == before


def test_a_name_that_is_bound_to_this_machine_reaches_nothing(resolving_browser: Browser, server: str) -> None:
    before = runs(server)
    page = resolving_browser.new_page()
    opened = page.goto(f"http://rebound.test:{urlsplit(server).port}/")
    assert opened is not None
    assert (opened.status, "rebound.test" in opened.text()) == (403, True)
    launched = page.evaluate(
        """async (query) => (await fetch("/graphql", {method: "POST", body: JSON.stringify({query}),
           headers: {"Content-Type": "application/json"}})).status""",
        LAUNCH,
    )
    assert launched == 403
    assert page.evaluate("async (path) => (await fetch(path)).status", f"/graphql?query={quote(LAUNCH)}") == 403
    assert page.evaluate(_WEBSOCKET, [page.url.rstrip("/"), "{ version }"]) == "refused"
    page.close()
    assert runs(server) == before


def test_what_the_foreign_pages_send_launches_a_run_where_it_is_allowed(server: str) -> None:
    before = runs(server)
    assert GraphQL(server).query(LAUNCH)["launchRun"]["__typename"] == "LaunchRunSuccess"
    assert runs(server) > before
