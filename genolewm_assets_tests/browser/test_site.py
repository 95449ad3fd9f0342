"""The site as a newcomer meets it: built strictly, opened in Chromium, searched, and walked from its home page."""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.servers.web_server import serving

QUESTIONS = tomllib.loads((Path(__file__).parent / "questions.toml").read_text())["question"]
WIDTHS = (400, 1_300)


def build(source: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build the site as `make docs` does."""
    words = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-qE", "-c", "docs", ".", str(site)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    return subprocess.run(words, cwd=source, env=environment, capture_output=True, text=True, check=False)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = build(REPOSITORY, folder)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[str]:
    """Return the address of the built site."""
    with serving(partial(_Quiet, directory=str(folder))) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(params=WIDTHS)
def page(request: pytest.FixtureRequest, browser: Browser, site: str) -> Iterator[Page]:
    """Return a page that reached no other host and met no error when the test ends."""
    context = browser.new_context(base_url=site, viewport={"width": request.param, "height": 900})
    page, faults = context.new_page(), []
    page.on("request", lambda sent: None if sent.url.startswith((f"{site}/", "data:")) else faults.append(sent.url))
    page.on("response", lambda got: None if got.ok or got.status == 304 else faults.append(f"{got.status} {got.url}"))
    page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    yield page
    context.close()
    assert faults == []


def test_every_page_fits_the_screen_and_asks_no_other_host(page: Page, folder: Path) -> None:
    names = {str(path.relative_to(folder)) for path in folder.rglob("*.html") if "_static" not in path.parts}
    # Decisions are 100 pages of one form.
    decisions = sorted(name for name in names if name.startswith("docs/decisions/0"))
    assert {"index.html", "docs/commands.html", "docs/tutorials/index.html"} <= names
    for name in sorted(names - set(decisions[1:])):
        page.goto(f"/{name}")
        too_wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert (name, too_wide) == (name, 0)


def test_the_search_finds_a_word(page: Page) -> None:
    page.goto("/")
    page.locator("button.search-button__button:visible").first.click()
    page.keyboard.type("heteroplasmy")
    page.keyboard.press("Enter")
    found = page.locator("#search-results li a", has_text="genolewm_assets.mito")
    found.first.click()
    assert "heteroplasmy" in page.locator("article").inner_text()


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question["text"])
def test_a_newcomer_finds_the_answer_within_two_clicks(page: Page, question: dict[str, list[str]]) -> None:
    page.goto("/")
    assert len(question["clicks"]) <= 2
    for name in question["clicks"]:
        page.get_by_role("link", name=name).locator("visible=true").first.click()
    text = page.locator("article").inner_text().casefold()
    assert [words for words in question["answer"] if words.casefold() not in text] == []


def test_dark_is_dark(browser: Browser, site: str) -> None:
    page = browser.new_page(color_scheme="dark")
    page.goto(site)
    red, green, blue = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    page.close()
    assert max(red, green, blue) < 64


#: Page, what is written at its end, and what the build says of it.
FAULTS = {
    "dead link": ("docs/publish.md", "[there](nowhere.md)", "docs/publish.md:*: WARNING: *'nowhere.md'*"),
    "dead anchor": ("docs/wheel.md", "[there](own_data.md#nowhere)", "docs/wheel.md:*'nowhere'*"),
    "no file": ("docs/publish.md", "[file](../genolewm_assets/none.yaml)", "docs/publish.md:*none.yaml*"),
    "not in the navigation": ("docs/lost.md", "# Lost", "docs/lost.md: WARNING: *toctree*"),
    "name that no face has": (
        "docs/api/genome.md",
        "```{eval-rst}\n.. autofunction:: genolewm_assets.genome.apply_nothing\n```",
        "WARNING: autodoc: failed to import 'apply_nothing'*",
    ),
    "name in a text": (
        "docs/api/genome.md",
        "```{eval-rst}\n:class:`genolewm_assets.genome.Nothing`\n```",
        "docs/api/genome.md:*genolewm_assets.genome.Nothing*",
    ),
}


def test_what_is_dead_breaks_the_build(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for pattern in ("*.md", "docs/**/*", "deploy/**/*", "benchmarks/*.md"):
        for path in filter(Path.is_file, REPOSITORY.glob(pattern)):
            target = copy / path.relative_to(REPOSITORY)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    for name in ("genolewm_assets", "LICENSE"):
        (copy / name).symlink_to(REPOSITORY / name)
    for name, text, _ in FAULTS.values():
        with (copy / name).open("a") as page:
            page.write(f"\n{text}\n")
    done = build(copy, tmp_path / "site")
    assert done.returncode == 1
    said = done.stderr.splitlines()
    missed = [fault for fault, (*_, line) in FAULTS.items() if not fnmatch.filter(said, f"*{line}")]
    assert missed == []
