"""A job is submitted once with the settings of the deployment, and errors come back from it as they are."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from genolewm_assets.defs.engines.slurm.job_messages import as_failure, failure_in, outcome_in
from genolewm_assets.defs.engines.slurm.pipes_client import SlurmJobError
from genolewm_assets.defs.engines.slurm.settings import read_settings
from genolewm_assets.errors import ConfigurationError, DeviceError, FetchError, GenoLeWMError, ResourceError, VcfError
from genolewm_assets.store.artefacts import BuildRejectedError, CheckResult
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.defs.engines.slurm.told_slurm import Cluster
from genolewm_assets_tests.rows import each_row


@pytest.mark.parametrize(
    "said",
    [
        "sbatch: error: Batch job submission failed: Invalid partition name specified",
        "sbatch: error: Batch job submission failed: Requested node configuration is not available",
        "sbatch: unrecognized option '--foo'",
        "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified",
    ],
)
def test_a_job_that_slurm_refuses_is_a_wrong_setting(cluster: Cluster, said: str) -> None:
    cluster.answer("sbatch", "", said, 1)
    with pytest.raises(ConfigurationError, match="sbatch: Slurm refuses the job"):
        cluster.run()
    assert len(cluster.calls("sbatch")) == 1


@pytest.mark.parametrize(
    ("out", "err", "status"),
    [
        ("", "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)", 1),
        ("", "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", 1),
        ("", "sbatch: error: AssocMaxSubmitJobLimit", 1),
        ("", "sbatch: error: Munge encode failed: Invalid credential", 1),
        ("", "sbatch: error: Batch job submission failed: Invalid authentication credential", 1),
        ("Submitted!", "", 0),
        ("0", "", 0),
        ("", "", 0),
    ],
)
def test_a_job_that_may_have_been_submitted_is_looked_for(cluster: Cluster, out: str, err: str, status: int) -> None:
    cluster.answer("sbatch", out, err, status)
    cluster.answer("squeue", "5|run=0\n7|run=1\nx|run=1\n")
    told, _ = cluster.run(cluster.finishes, lambda: cluster.says("COMPLETED"))
    assert told == [{"outcome": "built"}]
    assert len(cluster.calls("sbatch")) == 1


def test_a_job_that_was_submitted_twice_is_cancelled_once(cluster: Cluster) -> None:
    cluster.answer("sbatch", "", "sbatch: error: Batch job submission failed: Socket timed out", 1)

    told, log = cluster.run(
        lambda: cluster.answer("sbatch", "7\n"),
        lambda: cluster.answer("squeue", "7|run=1\n6|run=1\n5|run=0\n"),
        lambda: (cluster.says("RUNNING"), cluster.finishes()),
        lambda: cluster.says("COMPLETED"),
    )
    assert told == [{"outcome": "built"}]
    assert len(cluster.calls("sbatch")) == 2
    assert cluster.calls("scancel") == ["6"]
    assert "Slurm job 6 was submitted besides Slurm job 7. It is cancelled" in log


def test_a_job_that_cannot_be_submitted_ends_as_a_fault_of_the_machine(cluster: Cluster) -> None:
    cluster.answer("sbatch", "", "sbatch: error: Unable to contact slurm controller", 1)
    with pytest.raises(SlurmJobError, match="no job could be submitted"):
        cluster.run()
    assert len(cluster.calls("sbatch")) > 3


def test_without_slurm_it_says_so(cluster: Cluster) -> None:
    (cluster.folder / "sbatch").unlink()
    os.environ["PATH"] = str(cluster.folder)
    with pytest.raises(ConfigurationError, match="sbatch: is not installed here"):
        cluster.run()


BUILT = {"outcome": "built", "reused": False}


def crossed(err: GenoLeWMError) -> GenoLeWMError | None:
    return failure_in([json.loads(json.dumps(as_failure(err)))])


@each_row("kind", [VcfError, DeviceError, FetchError, ResourceError])
def test_an_error_keeps_its_class_and_its_facts(kind: type[GenoLeWMError]) -> None:
    err = kind("file.vcf", "is wrong", expected="'A'", got=None, remedy="Look at it")
    again = crossed(err)
    assert (type(again), str(again), again.exit_code) == (kind, str(err), err.exit_code)


def test_a_rejection_keeps_its_checks_and_the_rows_at_fault() -> None:
    err = BuildRejectedError("embeddings/cache[chr17]", "failed its checks")
    err.checks = (
        CheckResult("states_finite", False, {"rows": 2}, [{"key": "chr17:0", "value": None}]),
        CheckResult("rows_equal_windows", True, {"rows": 27}),
    )
    again = crossed(err)
    assert isinstance(again, BuildRejectedError)
    assert again.checks == err.checks


def test_a_failure_of_the_storage_is_still_one(tmp_path: Path) -> None:
    root = Root(tmp_path)
    for number, ours in ((errno.ENOSPC, True), (errno.ENOENT, False)):
        err = ResourceError(str(tmp_path), "the storage refused to write")
        err.__cause__ = OSError(number, "full", str(tmp_path / "file"))
        (tmp_path / "work").mkdir(exist_ok=True)
        assert root.is_storage_error(crossed(err)) is root.is_storage_error(err) is ours


@each_row(
    "messages",
    [
        *([], [None], ["built"], [BUILT], [BUILT, BUILT], [as_failure(VcfError("a", "b"))] * 2),
        *([{"outcome": "failed"}], [{"outcome": "failed", "kind": "VcfError"}]),
        [{"outcome": "failed", "kind": "SystemExit", "facts": {}, "checks": [], "system": None}],
        [{**as_failure(VcfError("a", "b")), "facts": {"where": "a"}}],
        [{**as_failure(BuildRejectedError("a", "b")), "checks": [{"nom": 1}]}],
        [{**as_failure(VcfError("a", "b")), "system": [1]}],
    ],
)
def test_what_states_no_error_is_none(messages: list[object]) -> None:
    assert failure_in(messages) is None
    assert outcome_in(messages) == (BUILT if messages == [BUILT] else None)


@pytest.fixture(autouse=True)
def _deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("GENOLEWM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GENOLEWM_ROOT", "/srv/genolewm")
    monkeypatch.setenv("GENOLEWM_CATALOG", "/etc/genolewm/catalog.yaml")


@pytest.mark.parametrize(
    ("product", "gres"), [("", "gpu:h100:1"), ("NVIDIA-H100-PCIe", "gpu:h100:1"), ("NVIDIA-H200", "gpu:h200:1")]
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
