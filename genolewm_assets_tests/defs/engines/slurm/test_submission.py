"""A job is submitted once, and what Slurm refuses is told from what may pass."""

from __future__ import annotations

import os

import pytest

from genolewm_assets.defs.engines.slurm.pipes_client import SlurmJobError
from genolewm_assets.errors import ConfigurationError
from genolewm_assets_tests.defs.engines.slurm.told_slurm import Cluster


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
        (
            "",
            "sbatch: error: Munge encode failed: Invalid credential",
            1,
        ),
        ("", "sbatch: error: Batch job submission failed: Invalid authentication credential", 1),
        ("Submitted!", "", 0),
        ("0", "", 0),
        ("", "", 0),
    ],
)
def test_a_job_of_which_nobody_knows_whether_it_was_submitted_is_looked_for(
    cluster: Cluster, out: str, err: str, status: int
) -> None:
    cluster.answer("sbatch", out, err, status)
    cluster.answer("squeue", "5|run=0\n7|run=1\nx|run=1\n")
    told, _ = cluster.run(cluster.finishes, lambda: cluster.says("COMPLETED"))
    assert told == [{"outcome": "built"}]
    assert len(cluster.calls("sbatch")) == 1


def test_a_job_that_was_submitted_twice_is_cancelled_once(cluster: Cluster) -> None:
    cluster.answer("sbatch", "", "sbatch: error: Batch job submission failed: Socket timed out", 1)

    def other_appears() -> None:
        cluster.answer("squeue", "7|run=1\n6|run=1\n5|run=0\n")

    def ours_starts() -> None:
        cluster.says("RUNNING")
        cluster.finishes()

    told, log = cluster.run(
        lambda: cluster.answer("sbatch", "7\n"),
        other_appears,
        ours_starts,
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
