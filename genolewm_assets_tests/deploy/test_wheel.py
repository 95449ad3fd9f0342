"""The page for users of the wheel is followed in an empty folder and home; the sdist builds the same wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest

from genolewm_assets_tests.places import REPOSITORY

PAGE = REPOSITORY / "docs/wheel.md"


def run(*command: object, cwd: Path, **environment: str) -> str:
    """Run a command with nothing of the environment but the settings of pip; return what it printed."""
    settings = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
    path = os.pathsep.join([str(Path(sys._base_executable).parent), "/usr/bin", "/bin"])  # type: ignore[attr-defined]
    done = subprocess.run(
        [*map(str, command)],
        cwd=cwd,
        env={"PATH": path, **settings, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3_000:]}\n{done.stderr[-3_000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the wheel, the sdist, and the wheel that the sdist builds, in ``again``."""
    folder = tmp_path_factory.mktemp("release")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv/bin/python"
    run(python, "-m", "pip", "install", "--quiet", "hatchling", cwd=folder)
    run(python, "-m", "hatchling", "build", "-d", folder / "dist", cwd=REPOSITORY)
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    source = folder / sdist.name.removesuffix(".tar.gz")
    run(python, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "again", cwd=source)
    return folder


def test_the_sdist_builds_the_same_wheel_and_nothing_is_missing(release: Path) -> None:
    (wheel,), (again,) = (release / "dist").glob("*.whl"), (release / "again").glob("*.whl")
    assert (wheel.name, wheel.read_bytes()) == (again.name, again.read_bytes())
    tracked = subprocess.run(
        ["git", "ls-files", "genolewm_assets"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.split()
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"genolewm_assets/py.typed", "genolewm_assets/catalogs/sample.yaml"} <= set(tracked)
    more = {"genolewm_assets/dagster.yaml", "genolewm_assets/train_example.py"}
    assert {name for name in names if "dist-info" not in name} == {*tracked, *more}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_page_is_all_that_a_user_needs(release: Path, tmp_path: Path) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    for file in (*(release / "dist").glob("*.whl"), REPOSITORY / "constraints.txt"):
        shutil.copy(file, work)
    before = {path.name for path in work.iterdir()}
    _, typed = re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.DOTALL)
    said = run("/bin/bash", "-euxc", typed, cwd=work, HOME=str(home))
    assert {path.name for path in work.iterdir()} - before == {"venv", "data", "classes.svg"}
    assert {path.name for path in home.iterdir()} <= {".cache", ".config"}
    assert "1-based position of the first base of ref" in said
    assert ElementTree.parse(work / "classes.svg").getroot().tag.endswith("svg")
    aurocs = re.findall(r"test AUROC +holdout-(chr|clinvar) +P/LP (\d+), B/LB (\d+): (0\.\d+)", said)
    assert [name for name, *_ in aurocs] == ["chr", "clinvar"]
    assert all(int(harmful) and int(benign) and float(area) > 0.5 for _, harmful, benign, area in aurocs)
    python, code = work / "venv/bin/python", "import genolewm_assets; print(genolewm_assets.__file__)"
    assert Path(run(python, "-c", code, cwd=work).strip()).is_relative_to(work / "venv")
