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
    "a text that is posted": """async ([url, query]) => {
        await fetch(`${url}/graphql?query=${encodeURIComponent(query)}`,
                    {method: "POST", mode: "no-cors", headers: {"Content-Type": "text/plain"}, body: ""})
          .catch(() => null) }""",
    "a query in an address": """async ([url, query]) => {
        await fetch(`${url}/graphql?query=${encodeURIComponent(query)}`, {mode: "no-cors"}).catch(() => null) }""",
    "a picture": """([url, query]) => new Promise((done) => {
        const image = new Image(); image.onerror = image.onload = done;
        image.src = `${url}/graphql?query=${encodeURIComponent(query)}` })""",
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


def test_a_foreign_page_opens_no_websocket(foreign_page: Page, server: str) -> None:
    assert foreign_page.evaluate(_WEBSOCKET, [server, "{ version }"]) == "refused"


def test_a_foreign_page_shows_the_ui_in_no_frame(foreign_page: Page, server: str) -> None:
    foreign_page.evaluate(
        """(url) => new Promise((done) => { const frame = document.createElement("iframe");
           frame.onload = done; frame.src = url; document.body.append(frame) })""",
        server,
    )
    frame = foreign_page.frames[-1]
    assert frame.locator("#root").count() == 0


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


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_the_page_itself_asks_and_listens(resolving_browser: Browser, server: str, name: str) -> None:
    page = resolving_browser.new_page()
    own = f"http://{name}:{urlsplit(server).port}"
    page.goto(own)
    asked = page.evaluate(
        """async () => await (await fetch("/graphql", {method: "POST", body: '{"query": "{ version }"}',
           headers: {"Content-Type": "application/json"}})).json()"""
    )
    assert asked["data"]["version"]
    assert page.evaluate(_WEBSOCKET, [own, "{ version }"]) != "refused"
    page.close()


def test_a_link_from_another_site_opens_the_ui(resolving_browser: Browser, server: str) -> None:
    with serving(_EmptyPage) as port:
        page = resolving_browser.new_page()
        page.goto(f"http://foreign.test:{port}/")
        page.evaluate("(url) => { location.href = url }", f"{server}/runs")
        page.wait_for_url(f"{server}/runs*")
        page.locator("#root").wait_for(state="attached")
        page.close()


def test_what_the_foreign_pages_send_launches_a_run_where_it_is_allowed(server: str) -> None:
    before = runs(server)
    assert GraphQL(server).query(LAUNCH)["launchRun"]["__typename"] == "LaunchRunSuccess"
    assert runs(server) > before
