"""Builds of states as jobs of a real Slurm: the same events as in the step's own process, whatever the job's end."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from genolewm_assets.defs.engines.slurm import PipesSlurmClient
from genolewm_assets.defs.runtime import job_builds
from genolewm_assets.defs.runtime.failure_hook import FINAL
from genolewm_assets.defs.runtime.gates import BUILD_AGAIN_TAG, INPUTS_ACCEPTED
from genolewm_assets.encoders import write_tiny_llama
from genolewm_assets.store.artefacts import ArtefactId
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.servers.slurm_cluster import SlurmCluster, slurm_cluster
from genolewm_assets_tests.worlds.graph.tiny_world import TinyWorld, bytes_of, failed_checks, failure_of

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

CACHE = "embeddings/cache"


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    with slurm_cluster() as running:
        yield running


@pytest.fixture
def deployed(cluster: SlurmCluster, world: TinyWorld, monkeypatch: pytest.MonkeyPatch) -> TinyWorld:
    """Return a world with windows, whose H100 steps are jobs of the cluster."""
    settings = {"EXECUTOR": "slurm", "ROOT": world.root, "CATALOG": world.catalog, "SLURM_PARTITION": "h100"}
    given = {f"GENOLEWM_{name}": str(value) for name, value in settings.items()}
    for name, value in {**given, **cluster.environment}.items():
        monkeypatch.setenv(name, value)
    world.make("reference/genome")
    world.make("windows/index", "chr17")
    return world


def log_of(world: TinyWorld, result: dg.ExecuteInProcessResult) -> list[str]:
    return [entry.user_message for entry in world.instance.all_logs(result.run_id)]


def is_retried(world: TinyWorld, result: dg.ExecuteInProcessResult) -> bool:
    """Tell whether the daemon would launch a run again."""
    return not FINAL.items() <= world.instance.get_run_by_id(result.run_id).tags.items()


def checks_of(result: dg.ExecuteInProcessResult) -> list[tuple[str, bool, object, list[str]]]:
    """Return everything that a run recorded of checks, but for what names its time."""
    return [
        (each.check_name, each.passed, each.severity, sorted(each.metadata))
        for each in result.get_asset_check_evaluations()
    ]


def test_a_job_builds_what_a_step_would_and_once_more_with_the_same_bytes(
    cluster: SlurmCluster, deployed: TinyWorld, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    built = deployed.materialize(CACHE, partition="chr17")
    assert built.success, log_of(deployed, built)
    log = "\n".join(log_of(deployed, built))
    assert all(said in log for said in ("is RUNNING on h100-1", "windows to encode"))
    assert "embeddings/cache[chr17] is built on" in capfd.readouterr().out
    assert built.run_id in (deployed.open(CACHE, "chr17").directory / "provenance.json").read_text()
    published = bytes_of(deployed.root)

    # Built again, by another job; of a version that is current, a run without the tag verifies the bytes and no more.
    again = deployed.materialize(CACHE, partition="chr17", tags={BUILD_AGAIN_TAG: "true"})
    assert again.success
    assert [event for event in again.all_events if event.is_asset_observation]
    assert any("Slurm job 2 is COMPLETED" in line for line in log_of(deployed, again))
    assert cluster.field(3, "JobState") == ""
    assert bytes_of(deployed.root) == published

    monkeypatch.setenv("GENOLEWM_EXECUTOR", "in_process")
    here = deployed.materialize(CACHE, partition="chr17")
    assert here.success
    assert checks_of(built) == checks_of(here)
    assert published == bytes_of(deployed.root)


def test_a_build_rejected_on_the_node_shows_its_checks(deployed: TinyWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    model = deployed.folder / "model"
    write_tiny_llama(model)
    weights = load_file(model / "model.safetensors")
    save_file({name: np.zeros_like(each) for name, each in weights.items()}, model / "model.safetensors")
    deployed.write_catalog(model=str(model))
    rejected = deployed.materialize(CACHE, partition="chr17")
    assert failed_checks(rejected) - {INPUTS_ACCEPTED}, failure_of(rejected)
    assert "failed its checks" in failure_of(rejected)
    assert not is_retried(deployed, rejected)
    assert not (deployed.root / "embeddings").exists()

    monkeypatch.setenv("GENOLEWM_EXECUTOR", "in_process")
    here = deployed.materialize(CACHE, partition="chr17")
    assert checks_of(rejected) == checks_of(here)


def test_a_job_that_only_says_that_it_built_is_not_believed_and_nothing_is_built_here(
    deployed: TinyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_builds, "_PROGRAM", "genolewm_assets_tests.faults.idle_job")
    monkeypatch.setattr(job_builds, "_SEEN_S", 0.0)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    idle = deployed.materialize(CACHE, partition="chr17")
    assert "is not published as this machine would build it" in failure_of(idle)
    assert is_retried(deployed, idle)
    assert not (deployed.root / "embeddings").exists()
    assert not list((deployed.root / "rejected").glob("**/manifest.json"))


def test_no_node_with_the_card_ends_in_a_failure_that_is_tried_again(
    cluster: SlurmCluster, deployed: TinyWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GENOLEWM_SLURM_PENDING_S", "2")
    cluster.run("scontrol", "update", "NodeName=h100-1", "State=DRAIN", "Reason=test")
    try:
        waited = deployed.materialize(CACHE, partition="chr17")
    finally:
        cluster.run("scontrol", "update", "NodeName=h100-1", "State=RESUME")
    assert failed_checks(waited) == {INPUTS_ACCEPTED}
    assert "waited for 2 s and did not start" in failure_of(waited)
    assert is_retried(deployed, waited)
    lines = [line for line in log_of(deployed, waited) if line.startswith("Slurm job")]
    (job,) = {line.split()[2] for line in lines}
    assert any("reason ReqNodeNotAvail" in line or "reason Nodes_required" in line for line in lines), lines
    reason = cluster.field(int(job), "Reason")
    assert lines[-1] == f"Slurm job {job} was cancelled: CANCELLED, reason {reason}, exit status 0"
    assert cluster.field(int(job), "JobState") == "CANCELLED"


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("GENOLEWM_SLURM_PARTITION", "elsewhere", "Slurm refuses the job"),
        ("GENOLEWM_GPU_PRODUCT", "NVIDIA-H200", "Slurm refuses the job"),
        ("GENOLEWM_SLURM_OPTIONS", "--array=1-9", "the option is not for this setting"),
    ],
)
def test_a_wrong_setting_is_for_a_person(
    deployed: TinyWorld, name: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    wrong = deployed.materialize(CACHE, partition="chr17")
    assert problem in failure_of(wrong)
    assert not is_retried(deployed, wrong)


def test_a_job_caches_kernels_in_its_folder_or_the_named_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, Path]] = []

    def run(client: PipesSlurmClient, *, folder: Path, **_: object) -> Any:
        seen.append((client.settings.environment["NUMBA_CACHE_DIR"], folder))
        return SimpleNamespace(get_custom_messages=lambda: [{"outcome": "built"}])

    monkeypatch.setattr(PipesSlurmClient, "run", run)
    for name, value in {"GENOLEWM_ROOT": str(tmp_path), "GENOLEWM_CATALOG": "sample"}.items():
        monkeypatch.setenv(name, value)
    context: Any = SimpleNamespace(run=SimpleNamespace(run_id="1"), op_execution_context=SimpleNamespace(op_handle="a"))
    root: Any = SimpleNamespace(path=tmp_path)
    plan: Any = SimpleNamespace(artefact=ArtefactId("tuples/frozen", "2024-01-01"))
    job_builds._run_job(context, root, plan, "build")
    monkeypatch.setenv("GENOLEWM_SLURM_VARIABLES", "NUMBA_CACHE_DIR")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/scratch/numba")
    job_builds._run_job(context, root, plan, "build")
    (own, folder), (named, _) = seen
    assert (Path(own).parent, named) == (folder, "/scratch/numba")
