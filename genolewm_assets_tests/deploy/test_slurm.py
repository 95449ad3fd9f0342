"""``deploy/slurm``: instructions and settings agree with the code, and an installation without Slurm pays nothing."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
import yaml

from genolewm_assets.defs.engines.op_tags import H100_POOL
from genolewm_assets.defs.engines.slurm.settings import read_settings
from genolewm_assets_tests.deploy.installation import DEPLOY, settings_of

README = (DEPLOY / "slurm/README.md").read_text()
EXAMPLE = settings_of((DEPLOY / "genolewm.env.example").read_text())
OWN = {name: value for name, value in EXAMPLE.items() if name.startswith("GENOLEWM_SLURM_")}


def test_the_commands_are_shell_and_the_variables_are_there() -> None:
    blocks = "\n".join(re.findall(r"```bash\n(.*?)```", README, re.DOTALL))
    done = subprocess.run(["bash", "-n"], input=blocks, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert set(re.findall(r"\bGENOLEWM_[A-Z_]+\b", README)) <= EXAMPLE.keys()
    assert OWN.keys() <= set(re.findall(r"\bGENOLEWM_[A-Z_]+\b", README))
    for name in re.findall(r"s/\^(\w+)=", blocks):
        assert name in EXAMPLE
    assert f"concurrency set {H100_POOL} " in README


def test_the_example_is_accepted_and_says_what_holds_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in OWN:
        monkeypatch.delenv(name, raising=False)
    for name in ("GENOLEWM_ROOT", "GENOLEWM_CATALOG", "GENOLEWM_GPU_PRODUCT"):
        monkeypatch.setenv(name, EXAMPLE[name])
    without = read_settings()
    for name, value in OWN.items():
        monkeypatch.setenv(name, value)
    example = read_settings()
    assert example.options == ("--cpus-per-task=8", "--mem=64G", "--gres=gpu:h100:1")
    assert (example.pending_s, example.silence_s) == (without.pending_s, without.silence_s)
    monitoring = yaml.safe_load((DEPLOY / "dagster.yaml").read_text())["run_monitoring"]
    assert example.pending_s < monitoring["max_runtime_seconds"]


def test_other_engines_import_nothing_of_it() -> None:
    code = "import sys, genolewm_assets.definitions as d; print([m for m in sys.modules if '.engines.slurm' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
