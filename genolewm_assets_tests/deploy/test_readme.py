"""The instructions of every way to deploy name what is there: files, units, variables; and their commands are shell."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from genolewm_assets.defs.engines.op_tags import H100_POOL
from genolewm_assets.defs.engines.slurm.settings import read_settings
from genolewm_assets_tests.deploy.installation import DEPLOY, UNITS, settings_of

EXAMPLE = settings_of((DEPLOY / "genolewm.env.example").read_text())
#: A file of this folder: named from it, or with the place of the checkout.
_FILE = re.compile(r"(?:(?<![\w/.-])|/opt/genolewm/src/deploy/)((?:systemd|nginx|bin)/[\w.-]+|\w+\.yaml)")
_VARIABLE = re.compile(r"\b(?:GENOLEWM|RAY)_[A-Z0-9_]+\b")
READMES = sorted(DEPLOY.rglob("README.md"))


def commands(readme: Path) -> str:
    return "\n".join(re.findall(r"```bash\n(.*?)```", readme.read_text(), re.DOTALL))


@pytest.mark.parametrize("readme", READMES, ids=lambda path: path.parent.name)
def test_commands_are_shell_and_name_what_is_there(readme: Path) -> None:
    done = subprocess.run(["bash", "-n"], input=commands(readme), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for path in re.findall(r"(?<![\w./])(?:src/)?(deploy/[\w./-]*\w)", commands(readme)):
        assert (DEPLOY.parent / path).exists(), path
    assert set(_VARIABLE.findall(readme.read_text())) - {"RAY_USE_TLS"} <= EXAMPLE.keys()


def test_files_and_units_of_one_machine_are_there_and_installed() -> None:
    text, typed = (DEPLOY / "README.md").read_text(), commands(DEPLOY / "README.md")
    for name in _FILE.findall(text):
        assert (DEPLOY / name).exists(), name
    for path in (*DEPLOY.glob("*.yaml"), *DEPLOY.glob("*.example"), *(DEPLOY / "nginx").iterdir()):
        assert path.name in typed
    assert "cp -r systemd/*" in typed
    units = {path.name.removeprefix("genolewm-").partition(".")[0] for path in UNITS.glob("genolewm-*.*")}
    assert {"backup", "daemon"} <= set(re.findall(r"genolewm-(\w+)", text)) <= units | {"trial"}
    for name in ("code", "webserver", "daemon"):
        assert f"genolewm-{name}.service" in (UNITS / "genolewm.target").read_text()
    for folder in (DEPLOY, DEPLOY / "slurm"):
        assert f"concurrency set {H100_POOL} " in (folder / "README.md").read_text()


def test_the_example_of_slurm_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {name: value for name, value in EXAMPLE.items() if name.startswith("GENOLEWM_SLURM_")}
    assert own.keys() <= set(_VARIABLE.findall((DEPLOY / "slurm/README.md").read_text()))
    for name in ("GENOLEWM_ROOT", "GENOLEWM_CATALOG", "GENOLEWM_GPU_PRODUCT", *own):
        monkeypatch.setenv(name, EXAMPLE[name])
    assert read_settings().options == ("--cpus-per-task=8", "--mem=64G", "--gres=gpu:h100:1")


def test_other_engines_import_nothing_of_slurm() -> None:
    code = "import sys, genolewm_assets.definitions as d; print([m for m in sys.modules if '.engines.slurm' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
