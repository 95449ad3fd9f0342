"""Names of files and locales as people have them: what works, and what is refused at the start by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from genolewm_assets.errors import RootError
from genolewm_assets.launch import WORKING_FOLDER, prepare_environment
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.command_line import run
from genolewm_assets_tests.faults.small_disk import SmallDisk, on_small_disk
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld
from genolewm_assets_tests.worlds.graph.small_root import create

#: Locales in which Python reads names of files as ASCII, unless it is told otherwise.
PLAIN_LOCALE = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize(
    "name",
    [
        'it\'s "quoted" {braces} ${HOME} $(id)',
        "a#b&c;d=e,f:g@h !~|<>^`",
        "ü \u20ac \U0001f600 [a]* b\\n",
    ],
)
def test_a_world_is_built_at_a_strange_path(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    world = BuiltWorld(tmp_path / name)
    world.keep_history()
    try:
        for assets, partition in (
            (("reference/genome",), None),
            (("gnomad/shard",), "chr17"),
            (("windows/index", "embeddings/cache"), "chr17"),
            (("corpus/windows",), "mrna_evo2"),
            (("clinvar/release", "clinvar/shard"), "2025-01-05"),
        ):
            assert world.materialize(*assets, partition=partition).success, assets
    finally:
        world.instance.dispose()


@pytest.mark.parametrize("name", ["50 %", "%41", "what?"])
def test_a_path_at_which_dagster_keeps_no_database_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "demo", "--root", tmp_path / name) == 3
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"{tmp_path / name}: Dagster cannot keep its databases")
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("name", ["a\nb", "a\tb", "\x1b[31m", "\x7f"])
def test_a_path_with_control_characters_is_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for command in ("demo", "verify", "gc", "status", "cache-windows"):
        assert run(monkeypatch, command, "--root", tmp_path / name) == 3
        (line,) = capfd.readouterr().err.splitlines()
        assert "control character" in line
    assert not (tmp_path / name).exists()


def test_a_path_that_is_not_utf8_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    name = tmp_path / os.fsdecode(b"a\xffb")
    for command in (["demo", "--root"], ["verify", "--root"], ["package", "verify"], ["cache", "inspect"]):
        assert run(monkeypatch, *command, name) == 2
        (line,) = capfd.readouterr().err.splitlines()
        assert line.endswith("udcffb': holds bytes that are not UTF-8. Rename it or use a link to it.")
    # Where the working directory has such a name.
    name.mkdir()
    monkeypatch.chdir(name)
    assert run(monkeypatch, "verify", "--root", "data") == 3
    with pytest.raises(RootError, match="not UTF-8"):
        Root(Path("data"))


def test_a_locale_without_utf8(tmp_path: Path) -> None:
    root = tmp_path / "ü"
    create(root)
    vcf = root / "absent.vcf"
    words = [sys.executable, "-m", "genolewm_assets"]
    environment = {**os.environ, **PLAIN_LOCALE}
    verified = subprocess.run([*words, "verify", "--root", root], env=environment, capture_output=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, b"")
    refused = subprocess.run(
        [*words, "prepare-clinvar", "--input-vcf", vcf, "--release", "2025-01-05", "--output", root],
        env=environment,
        capture_output=True,
        check=False,
    )
    assert refused.returncode == 2
    assert f"{vcf}: does not exist".encode() in refused.stderr


@pytest.mark.parametrize("place", ["root", "dagster", "packages", "work"])
def test_a_file_in_the_place_of_a_folder(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    if place != "root":
        create(root)
    target = root if place == "root" else root / place
    if target.is_dir():
        target.rename(tmp_path / "aside")
    target.write_text("a file")
    for command in (["demo"], ["verify"], ["gc"], ["package", "pin", "2025-01-05"], ["cache", "index"]):
        code = run(monkeypatch, *command, "--root", root)
        said = capfd.readouterr().err
        assert code in {0, 3, 4}, (command, said)
        assert said.count("\n") <= 1, (command, said)


@pytest.mark.parametrize("free_bytes", [0, 200 << 10])
def test_a_full_disk_at_the_first_writes(free_bytes: int, tmp_path: Path) -> None:
    def demo(disk: SmallDisk) -> object:
        (disk.folder / "filled").write_bytes(bytes(1 << 20))
        disk.leave(free_bytes)
        words = [sys.executable, "-m", "genolewm_assets", "demo", "--root", str(disk.folder / "root")]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr.count("\n"), "Traceback" in done.stderr, done.stderr[-300:]

    said = on_small_disk(tmp_path / "disk", demo)
    assert said.startswith(("(3, 1, False", "(4, 1, False")), said


@pytest.mark.parametrize("own", ["", "{here}", ":{here}", "lib:{here}:"])
def test_children_import_this_package_and_nothing_from_the_folder_of_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str
) -> None:
    (tmp_path / "click.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", own.format(here=REPOSITORY))
    environment = {**os.environ, **prepare_environment(tmp_path / "root", "sample")}
    code = "import click, sys, genolewm_assets; print(genolewm_assets.__file__); print(*sys.path, sep=':')"
    for folder in (tmp_path, WORKING_FOLDER):
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=True)
        package, path = done.stdout.splitlines()
        assert Path(package).parents[1] == REPOSITORY
        assert {str(tmp_path), "", "."}.isdisjoint(path.split(":"))
        assert (str(tmp_path / "lib") in path.split(":")) == own.startswith("lib")
