"""Settings of Slurm jobs: options as argument vectors, the card from one setting, and no password in a job."""

from __future__ import annotations

import os

import pytest

from genolewm_assets.defs.engines.slurm.settings import read_settings
from genolewm_assets.errors import ConfigurationError


@pytest.fixture(autouse=True)
def _deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("GENOLEWM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GENOLEWM_ROOT", "/srv/genolewm")
    monkeypatch.setenv("GENOLEWM_CATALOG", "/etc/genolewm/catalog.yaml")


@pytest.mark.parametrize(
    ("product", "gres"),
    [("", "gpu:h100:1"), ("NVIDIA-H100-PCIe", "gpu:h100:1"), ("NVIDIA-H200", "gpu:h200:1")],
)
def test_the_card_is_that_of_the_product(product: str, gres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENOLEWM_GPU_PRODUCT", product)
    assert read_settings().options == (f"--gres={gres}",)


def test_what_is_set_becomes_options_and_the_card_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "PARTITION": "gpu,gpu-long",
        "ACCOUNT": "lab",
        "QOS": "normal",
        "TIME": "2-00:00:00",
        "GRES": "gpu:nvidia_h100_80gb_hbm3:1",
        "OPTIONS": "--mem=64G '--constraint=a b;$(c)' --exclusive --gres=gpu:8",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"GENOLEWM_SLURM_{name}", value)
    assert read_settings().options == (
        *("--mem=64G", "--constraint=a b;$(c)", "--exclusive", "--gres=gpu:8"),
        *("--partition=gpu,gpu-long", "--account=lab", "--qos=normal", "--time=2-00:00:00"),
        "--gres=gpu:nvidia_h100_80gb_hbm3:1",
    )


def test_a_job_has_settings_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", "secret")
    monkeypatch.setenv("GENOLEWM_WEBHOOK_URL", "https://hooks.example.org/secret")
    monkeypatch.setenv("SBATCH_ARRAY_INX", "1-9")
    monkeypatch.setenv("HF_HOME", "/srv/models")
    monkeypatch.setenv("GENOLEWM_BATCH_WINDOWS", "32")
    assert "HF_HOME" not in read_settings().environment
    monkeypatch.setenv("GENOLEWM_SLURM_VARIABLES", "HF_HOME NOT_SET")
    environment = read_settings().environment
    assert environment["GENOLEWM_ROOT"] == "/srv/genolewm"
    assert (environment["HF_HOME"], environment["GENOLEWM_BATCH_WINDOWS"]) == ("/srv/models", "32")
    assert "secret" not in str(environment)
    assert not {"NOT_SET", "SBATCH_ARRAY_INX", "GENOLEWM_EXECUTOR", "GENOLEWM_CACHE"} & environment.keys()


def test_limits_are_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (read_settings().pending_s, read_settings().silence_s) == (259_200, 600)
    monkeypatch.setenv("GENOLEWM_SLURM_PENDING_S", "60")
    monkeypatch.setenv("GENOLEWM_SLURM_SILENCE_S", "5")
    assert (read_settings().pending_s, read_settings().silence_s) == (60, 5)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("GENOLEWM_ROOT", "data", "not a path for every node"),
        ("GENOLEWM_CATALOG", "conf/catalog.yaml", "not a path for every node"),
        ("GENOLEWM_SLURM_PARTITION", "h100 --wrap=x", "not a word of Slurm"),
        ("GENOLEWM_SLURM_GRES", "gpu:h100:1\n", "not a word of Slurm"),
        ("GENOLEWM_SLURM_PENDING_S", "-1", "not a number of seconds"),
        ("GENOLEWM_SLURM_PENDING_S", "0", "not a number of seconds"),
        ("GENOLEWM_SLURM_SILENCE_S", "1h", "not a number of seconds"),
        ("GENOLEWM_SLURM_OPTIONS", "--mem=64G job.sh", "not an option of sbatch"),
        ("GENOLEWM_SLURM_OPTIONS", "-p h100", "not an option of sbatch"),
        ("GENOLEWM_SLURM_OPTIONS", "--mem=1G : --mem=2G", "not an option of sbatch"),
        ("GENOLEWM_SLURM_OPTIONS", "--", "not an option of sbatch"),
        ("GENOLEWM_SLURM_OPTIONS", "--mem='64G", "cannot be split"),
        ("GENOLEWM_SLURM_OPTIONS", "--wrap=true", "not for this setting"),
        ("GENOLEWM_SLURM_OPTIONS", "--arr=1-9", "not for this setting"),
        ("GENOLEWM_SLURM_OPTIONS", "--requeue", "not for this setting"),
        ("GENOLEWM_SLURM_VARIABLES", "HF_HOME,ALL", "not the name of a variable"),
        ("GENOLEWM_SLURM_VARIABLES", "PGPASS=x", "not the name of a variable"),
        ("GENOLEWM_GPU_PRODUCT", "h100", "not the label of a GPU node"),
    ],
)
def test_what_cannot_be_is_refused(name: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=f"{name}: .*{problem}"):
        read_settings()
