"""A job is followed to its end: Slurm and the job say together that it succeeded, and what is given up is cancelled.

The commands of Slurm are programs that answer what a test tells them; time passes when the client sleeps.
"""

import os
from functools import partial

import pytest
from dagster._core.errors import DagsterExecutionInterruptedError

from genolewm_assets.defs.engines.slurm.job_states import PHASES, Phase
from genolewm_assets.defs.engines.slurm.pipes_client import SlurmJobError
from genolewm_assets_tests.defs.engines.slurm.test_job_states import shown
from genolewm_assets_tests.defs.engines.slurm.told_slurm import Cluster

DOWN = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
GONE = "slurm_load_jobs error: Invalid job id specified\n"


def test_a_job_that_completed_and_said_so_has_succeeded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"PGPASSWORD": "secret", "SBATCH_ARRAY_INX": "1-9", "SLURM_JOB_ID": "3"}.items():
        monkeypatch.setenv(name, value)
    told, log = cluster.run(
        lambda: cluster.says("RUNNING"),
        lambda: cluster.prints("half a "),
        lambda: cluster.tells("opened", extras={}),
        lambda: cluster.tells("log", message="27 windows", level="INFO"),
        lambda: cluster.prints("line\n"),
        lambda: cluster.tells("report_custom_message", payload={"outcome": "built"}),
        lambda: cluster.tells("closed"),
        lambda: cluster.says("COMPLETED"),
    )
    assert told == [{"outcome": "built"}]
    assert [line for line in log if line.startswith("Slurm job")] == [
        "Slurm job 7 was submitted as job: --gres=gpu:h100:1",
        "Slurm job 7 waits: PENDING, reason Resources",
        "Slurm job 7 is RUNNING on h100-1",
        "Slurm job 7 is COMPLETED, exit status 0 on h100-1",
    ]
    assert "27 windows" in log
    assert "half a line\n" in capfd.readouterr().out
    assert cluster.calls("scancel") == []
    (submitted,) = cluster.calls("sbatch")
    assert "--gres=gpu:h100:1" in submitted
    assert "--no-requeue --dependency=singleton --export=ALL" in submitted
    environment = (cluster.folder / "sbatch.env").read_text()
    assert "GENOLEWM_ROOT=/srv/genolewm" in environment
    assert "DAGSTER_PIPES_CONTEXT=" in environment
    assert not any(name in environment for name in ("secret", "SBATCH_ARRAY_INX", "SLURM_JOB_ID"))


#: States of jobs that would run again.
REQUEUED = ("REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT")


@pytest.mark.parametrize(
    "state", sorted(state for state, phase in PHASES.items() if phase is Phase.FAILED and state not in REQUEUED)
)
def test_every_bad_end_is_a_failure_even_if_the_job_says_that_it_finished(cluster: Cluster, state: str) -> None:
    with pytest.raises(SlurmJobError, match=f"did not succeed: got {state}") as failure:
        cluster.run(cluster.finishes, lambda: cluster.says(state))
    assert failure.value.state == state
    assert failure.value.messages == ({"outcome": "built"},)
    assert cluster.calls("scancel") == []


@pytest.mark.parametrize(
    ("state", "restarts"), [*((state, 0) for state in REQUEUED), ("PENDING", 1), ("RUNNING", 1), ("COMPLETED", 1)]
)
def test_a_job_that_was_requeued_is_cancelled(cluster: Cluster, state: str, restarts: int) -> None:
    cluster.says(state, restarts=restarts)
    with pytest.raises(SlurmJobError, match=f"did not succeed: got {state}"):
        cluster.run(cluster.finishes, *[partial(cluster.obeys, restarts=1)] * 5)
    assert bool(cluster.calls("scancel")) is (state != "COMPLETED")


@pytest.mark.parametrize("exit_code", ["1:0", "0:9"])
def test_completed_with_an_exit_code_is_a_failure(cluster: Cluster, exit_code: str) -> None:
    with pytest.raises(SlurmJobError, match="COMPLETED, "):
        cluster.run(cluster.finishes, lambda: cluster.says("COMPLETED", exit_code))


@pytest.mark.parametrize(
    "text", ["", "no json\n", "[1]\n", "null\n", '{"method": "closed"}\n', '{"__dagster_pipes_version": "0.1"}\n']
)
def test_a_job_that_did_not_say_that_it_finished_has_failed(cluster: Cluster, text: str) -> None:
    with pytest.raises(SlurmJobError, match="did not say that it had finished"):
        opened = partial(cluster.tells, "opened", extras={})
        cluster.run(opened, lambda: cluster.writes(text), lambda: cluster.says("COMPLETED"))


def test_last_words_that_come_late_and_in_pieces_count(cluster: Cluster) -> None:
    closed = '{"__dagster_pipes_version": "0.1", "method": "closed", "params": {}}\n'
    cluster.says("COMPLETED")
    wait = [lambda: None] * 40
    opened = partial(cluster.tells, "opened", extras={})
    says = partial(cluster.tells, "report_custom_message", payload="é" * 20_000)
    halves = [partial(cluster.writes, half) for half in (closed[:20], closed[20:])]
    told, _ = cluster.run(*wait, opened, says, halves[0], *wait, halves[1])
    assert told == ["é" * 20_000]


def test_zeros_where_nothing_has_arrived_yet_are_not_read(cluster: Cluster) -> None:
    whole: list[bytes] = []

    def half_arrives() -> None:
        cluster.finishes()
        messages = cluster.job / "messages.jsonl"
        whole.append(messages.read_bytes())
        messages.write_bytes(whole[0][:40] + bytes(60) + whole[0][100:])

    told, log = cluster.run(
        lambda: cluster.says("COMPLETED"),
        half_arrives,
        lambda: None,
        lambda: (cluster.job / "messages.jsonl").write_bytes(whole[0]),
    )
    assert told == [{"outcome": "built"}]
    assert not [line for line in log if "no message" in line]


def test_an_error_that_is_stated_late_is_heard(cluster: Cluster) -> None:
    with pytest.raises(SlurmJobError) as failure:
        cluster.run(lambda: cluster.says("FAILED", "4:0"), *[lambda: None] * 40, cluster.finishes)
    assert failure.value.messages == ({"outcome": "built"},)


def test_a_job_that_slurm_does_not_know_any_more_has_failed(cluster: Cluster) -> None:
    with pytest.raises(SlurmJobError, match="unknown to Slurm, so nobody can tell how it ended"):
        gone = partial(cluster.answer, "scontrol", "", GONE, 1)
        cluster.run(cluster.finishes, lambda: cluster.says("RUNNING"), lambda: None, lambda: None, gone)


def test_another_job_with_the_same_number_is_not_ours(cluster: Cluster) -> None:
    cluster.answer("scontrol", shown("COMPLETED").replace("JobName=job", "JobName=other"))
    with pytest.raises(SlurmJobError, match="unknown to Slurm"):
        cluster.run(cluster.finishes)
    assert cluster.calls("scancel") == []


NO_ANSWERS = {
    "a controller that is down": ("", DOWN, 1),
    "nothing": ("", "", 0),
    "a state of a later Slurm": (shown("QUANTUM"), "", 0),
    "another job": (shown("COMPLETED").replace("JobId=7", "JobId=8"), "", 0),
    "half an answer": (shown("COMPLETED")[:200], "", 0),
    "an answer and an error": (shown("COMPLETED"), "error", 1),
    "bytes": ("\0\x01\n", "", 0),
}


@pytest.mark.nightly
@pytest.mark.parametrize("answer", NO_ANSWERS.values(), ids=list(NO_ANSWERS))
def test_without_an_answer_a_job_is_given_up_in_the_end(cluster: Cluster, answer: tuple[str, str, int]) -> None:
    with pytest.raises(SlurmJobError, match=r"nothing is known of Slurm job 7 for (5|6)\d s"):
        cluster.run(cluster.finishes, partial(cluster.answer, "scontrol", *answer))
    assert set(cluster.calls("scancel")) == {"7"}
    assert any("may still run: Slurm does not say that it ended. Run: scancel 7" in line for line in cluster.log)


def test_a_controller_that_comes_back_is_waited_for(cluster: Cluster) -> None:
    outage = [partial(cluster.answer, "scontrol", "", DOWN, 1), *[lambda: None] * 70]
    running = [lambda: cluster.says("RUNNING"), *[lambda: None] * 40]
    told, log = cluster.run(*outage, *running, *outage, cluster.finishes, lambda: cluster.says("COMPLETED"))
    assert told == [{"outcome": "built"}]
    assert len([line for line in log if "Unable to contact" in line]) == 2


def test_a_client_that_is_exchanged_is_waited_for(cluster: Cluster) -> None:
    program, away = cluster.folder / "scontrol", cluster.folder / "away"
    os.environ["PATH"] = str(cluster.folder)

    told, _ = cluster.run(
        *(lambda: program.rename(away), *[lambda: None] * 20, lambda: away.rename(program)),
        *(cluster.finishes, lambda: cluster.says("COMPLETED")),
    )
    assert told == [{"outcome": "built"}]
    assert any("scontrol: could not be run to its end" in line for line in cluster.log)
    assert cluster.calls("scancel") == []


def test_a_job_that_waits_too_long_is_cancelled_with_its_reason(cluster: Cluster) -> None:
    steps = [lambda: cluster.says("PENDING", reason="Priority"), *[cluster.obeys] * 1_000]
    with pytest.raises(SlurmJobError, match=r"waited for 100 s and did not start: got PENDING, reason Priority"):
        cluster.run(*steps)
    assert cluster.calls("scancel") == ["7"]
    assert "Slurm job 7 waits: PENDING, reason Priority" in cluster.log
    assert "Slurm job 7 was cancelled: CANCELLED, exit status 0" in cluster.log


def test_a_job_that_does_not_come_to_its_end_is_given_up(cluster: Cluster) -> None:
    with pytest.raises(SlurmJobError, match="does not come to its end: got COMPLETING"):
        cluster.run(cluster.finishes, lambda: cluster.says("COMPLETING"))


def test_an_interrupted_step_cancels_its_job_and_waits_for_that(cluster: Cluster) -> None:
    def interrupt() -> None:
        raise DagsterExecutionInterruptedError

    obeys = partial(cluster.obeys, "0:15", asked=3)
    with pytest.raises(DagsterExecutionInterruptedError):
        cluster.run(lambda: cluster.says("RUNNING"), lambda: None, interrupt, *[obeys] * 50)
    assert len(cluster.calls("scancel")) == 3
    assert "Slurm job 7 was cancelled: CANCELLED, killed by signal 15" in cluster.log
