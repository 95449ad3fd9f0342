"""The instructions name what is there: files, units, variables; and their commands are shell."""

from __future__ import annotations

import re
import subprocess

import pytest

from genolewm_assets.defs.engines.op_tags import H100_POOL
from genolewm_assets_tests.deploy.installation import DEPLOY, UNITS, settings_of

TEXT = (DEPLOY / "README.md").read_text()
BLOCKS = re.findall(r"```bash\n(.*?)```", TEXT, re.DOTALL)
COMMANDS = "\n".join(BLOCKS)
#: A file of this folder: named from it, or with the place of the checkout.
_FILE = re.compile(r"(?:(?<![\w/.-])|/opt/genolewm/src/deploy/)((?:systemd|nginx|bin)/[\w.-]+|\w+\.yaml)")


def test_commands_are_shell() -> None:
    done = subprocess.run(["bash", "-n"], input=COMMANDS, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", sorted(set(_FILE.findall(TEXT))))
def test_files_are_there(name: str) -> None:
    assert (DEPLOY / name).exists()


def test_every_file_is_installed_by_some_command() -> None:
    for path in (*DEPLOY.glob("*.yaml"), *DEPLOY.glob("*.example"), *(DEPLOY / "nginx").iterdir()):
        assert path.name in COMMANDS
    assert "cp -r systemd/*" in COMMANDS


def test_units_are_there() -> None:
    units = {path.name.removeprefix("genolewm-").partition(".")[0] for path in UNITS.glob("genolewm-*.*")}
    named = set(re.findall(r"genolewm-(\w+)", TEXT))
    assert {"backup", "daemon"} <= named
    assert named <= units | {"trial"}
    for name in ("code", "webserver", "daemon"):
        assert f"genolewm-{name}.service" in (UNITS / "genolewm.target").read_text()


def test_variables_and_the_pool_are_there() -> None:
    example = settings_of((DEPLOY / "genolewm.env.example").read_text())
    assert set(re.findall(r"GENOLEWM_[A-Z_]+", TEXT)) <= set(example)
    assert f"concurrency set {H100_POOL} " in TEXT
