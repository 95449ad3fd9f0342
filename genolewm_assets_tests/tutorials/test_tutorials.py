"""Every tutorial runs as shown, prints what it says, and makes its pictures; ``-k 03`` runs one.

With ``GENOLEWM_WRITE_PICTURES=1`` the pictures are written to ``docs/images/tutorials``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from PIL import Image

from genolewm_assets_tests.places import SHARED_DATA
from genolewm_assets_tests.servers.chromium import chromium, require_chromium
from genolewm_assets_tests.servers.hub import running_hub
from genolewm_assets_tests.servers.programs import free_port
from genolewm_assets_tests.servers.public_servers import serve_slices
from genolewm_assets_tests.servers.web_server import running_server
from genolewm_assets_tests.tutorials.reader import (
    PICTURES,
    TUTORIALS,
    Picture,
    Snippet,
    check_picture,
    check_printed,
    read_steps,
    reading,
)
from genolewm_assets_tests.worlds.once import built_once

pytestmark = [pytest.mark.timeout(2_400)]

FIRST = "01_first_probe"


@dataclass(frozen=True)
class Surroundings:
    """What a tutorial finds that its own snippets do not make: servers, and a browser."""

    stand_ins: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Takes the pictures that no snippet makes, when the reader comes to them.
    take: Callable[[Path], None] | None = None


@contextmanager
def ordinary(folder: Path) -> Iterator[Surroundings]:
    yield Surroundings()


@contextmanager
def public_servers(folder: Path) -> Iterator[Surroundings]:
    """Serve slices of the real files on 127.0.0.1; of the catalogue's name, the copy that names them is built."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the real sample data (../shared/data beside the repository) is absent")
    folder.mkdir()
    with running_server() as site, running_hub() as hub:
        catalog = serve_slices(site, hub, SHARED_DATA, folder).catalog
        yield Surroundings({"grch38-chr21": str(catalog)}, hub.environment(folder / "cache"))


@contextmanager
def served_ui(folder: Path) -> Iterator[Surroundings]:
    """Let the UI listen on a free port, and take its pictures there."""
    port, path = free_port(), require_chromium()

    def take(picture: Path) -> None:
        with chromium(path) as browser:
            page = browser.new_page(
                base_url=f"http://127.0.0.1:{port}", viewport={"width": 1_200, "height": 720}, device_scale_factor=0.75
            )
            page.goto("/assets/packages/current")
            page.get_by_text("2025-01-12").first.wait_for(timeout=120_000)
            page.wait_for_timeout(3_000)
            page.screenshot(path=picture)
        with Image.open(picture) as shot:
            shot.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(picture, optimize=True)

    yield Surroundings({"3000": str(port)}, take=take)


SURROUNDINGS = {"02_real_chromosome": public_servers, "04_new_release": served_ui, "08_several_machines": served_ui}


def read(folder: Path, page: Path, root: Path | None = None) -> Path:
    """Do a tutorial in a folder of ``folder`` and return it; ``data`` is a copy of a built root, if one is given."""
    place = folder / page.stem
    with (
        SURROUNDINGS.get(page.stem, ordinary)(folder / "surroundings") as around,
        reading(place, stand_ins=around.stand_ins, environment=around.environment) as reader,
    ):
        if root is not None:
            shutil.copytree(root, place / "data", symlinks=True)
        for step in read_steps(page):
            if isinstance(step, Snippet):
                reader.run(step)
            elif around.take is not None and not (place / step.name).exists():
                around.take(place / step.name)
    return place


@pytest.fixture(scope="session")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Do the first tutorial, which builds the root of the demo that the others start from; return its folder."""
    page = next(page for page in TUTORIALS if page.stem == FIRST)
    return built_once(tmp_path_factory, "first_tutorial", lambda folder: read(folder, page)) / FIRST


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_runs_prints_and_draws_what_it_shows(page: Path, first: Path, tmp_path: Path) -> None:
    steps = read_steps(page)
    if page.stem == FIRST:
        place = first
    else:
        needs_demo = any(isinstance(step, Snippet) and step.text.startswith("genolewm demo") for step in steps)
        place = read(tmp_path, page, first / "data" if needs_demo else None)
    for step in steps:
        if isinstance(step, Snippet):
            check_printed(step, place)
        else:
            check_picture(place / step.name)


def test_every_picture_is_shown() -> None:
    shown = {step.name for page in TUTORIALS for step in read_steps(page) if isinstance(step, Picture)}
    assert shown == {path.name for path in PICTURES.iterdir()}
