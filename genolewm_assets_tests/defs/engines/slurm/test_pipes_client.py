"""A job is followed to its end: Slurm and the job say together that it succeeded, and what is given up is cancelled.

The commands of Slurm are programs that answer what a test tells them; time passes when the client sleeps.
"""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.errors import DagsterExecutionInterruptedError

from genolewm_assets.defs.engines.slurm.job_states import PHASES, Phase
from genolewm_assets.defs.engines.slurm.pipes_client import PipesSlurmClient, SlurmJobError
from genolewm_assets.defs.engines.slurm.settings import SlurmSettings
from genolewm_assets.errors import ConfigurationError
from genolewm_assets_tests.defs.engines.slurm.test_job_states import shown

DOWN = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
GONE = "slurm_load_jobs error: Invalid job id specified\n"

_PROGRAM = """#!/bin/sh
cd "${0%/*}" && name=${0##*/}
printf '%s\\n' "$*" >>"$name.calls"
/usr/bin/env >"$name.env"
/bin/cat "$name.err" >&2
/bin/cat "$name.out"
exit "$(/bin/cat "$name.rc")"
"""

Step = Callable[[], None]


@dataclass
class Cluster:
    """Slurm as a test tells it, and the job that it pretends to run."""

    folder: Path
    job: Path
    now: float = 0.0
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        for name in ("sbatch", "scontrol", "scancel", "squeue"):
            path = self.folder / name
            path.write_text(_PROGRAM)
            path.chmod(0o755)
            self.answer(name)
        self.answer("sbatch", "7\n")
        self.says("PENDING", reason="Resources")

    def answer(self, name: str, out: str = "", err: str = "", status: int = 0) -> None:
        for suffix, text in (("out", out), ("err", err), ("rc", str(status))):
            (self.folder / f"{name}.{suffix}").write_text(text)

    def says(self, state: str, exit_code: str = "0:0", **fields: Any) -> None:
        self.answer("scontrol", shown(state, exit_code, **fields))

    def calls(self, name: str) -> list[str]:
        path = self.folder / f"{name}.calls"
        return path.read_text().splitlines() if path.exists() else []

    def tells(self, method: str, **params: Any) -> None:
        message = {"__dagster_pipes_version": "0.1", "method": method, "params": params}
        self.writes(json.dumps(message) + "\n")

    def writes(self, text: str) -> None:
        with (self.job / "messages.jsonl").open("a") as file:
            file.write(text)

    def prints(self, text: str) -> None:
        with (self.job / "output.log").open("a") as file:
            file.write(text)

    def finishes(self) -> None:
        self.tells("opened", extras={})
        self.tells("report_custom_message", payload={"outcome": "built"})
        self.tells("closed")

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.steps:
            self.steps.pop(0)()
        assert self.now < 10_000, "the client never ends"

    def run(self, *steps: Step, pending_s: float = 100.0, silence_s: float = 50.0) -> tuple[list[object], list[str]]:
        """Run a job while the steps happen, one at each sleep; return what it told and the lines of the run's log."""
        self.steps = list(steps)
        settings = SlurmSettings(("--gres=gpu:h100:1",), {"GENOLEWM_ROOT": "/srv/genolewm"}, pending_s, silence_s)
        told: list[object] = []

        @dg.asset(name="step")
        def step(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
            client = PipesSlurmClient(settings, clock=lambda: self.now, sleep=self.sleep)
            done = client.run(context=context, command=["true"], name="job", comment="run=1", folder=self.job)
            told.extend(done.get_custom_messages())
            return dg.MaterializeResult()

        with dg.DagsterInstance.ephemeral() as instance:
            try:
                dg.materialize([step], instance=instance)
            finally:
                (run,) = instance.get_runs()
                self.log = [entry.user_message for entry in instance.all_logs(run.run_id)]
        return told, self.log


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    made = Cluster(tmp_path / "bin", tmp_path / "root/work/slurm/1")
    yield made
    assert not made.job.exists()


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
    def cancelled() -> None:
        if cluster.calls("scancel"):
            cluster.says("CANCELLED", restarts=1)

    cluster.says(state, restarts=restarts)
    with pytest.raises(SlurmJobError, match=f"did not succeed: got {state}"):
        cluster.run(cluster.finishes, *[cancelled] * 5)
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
        cluster.run(
            lambda: cluster.tells("opened", extras={}), lambda: cluster.writes(text), lambda: cluster.says("COMPLETED")
        )


def test_last_words_that_come_late_and_in_pieces_count(cluster: Cluster) -> None:
    closed = '{"__dagster_pipes_version": "0.1", "method": "closed", "params": {}}\n'
    cluster.says("COMPLETED")
    wait = [lambda: None] * 40
    told, _ = cluster.run(
        *wait,
        lambda: cluster.tells("opened", extras={}),
        lambda: cluster.tells("report_custom_message", payload="é" * 20_000),
        lambda: cluster.writes(closed[:20]),
        *wait,
        lambda: cluster.writes(closed[20:]),
    )
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
        cluster.run(
            cluster.finishes,
            lambda: cluster.says("RUNNING"),
            lambda: None,
            lambda: None,
            lambda: cluster.answer("scontrol", "", GONE, 1),
        )


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


@pytest.mark.parametrize("answer", NO_ANSWERS.values(), ids=list(NO_ANSWERS))
def test_without_an_answer_a_job_is_given_up_in_the_end(cluster: Cluster, answer: tuple[str, str, int]) -> None:
    def silence() -> None:
        cluster.answer("scontrol", *answer)

    with pytest.raises(SlurmJobError, match=r"nothing is known of Slurm job 7 for (5|6)\d s"):
        cluster.run(cluster.finishes, silence)
    assert set(cluster.calls("scancel")) == {"7"}
    assert any("may still run: Slurm does not say that it ended. Run: scancel 7" in line for line in cluster.log)


def test_a_controller_that_comes_back_is_waited_for(cluster: Cluster) -> None:
    def down() -> None:
        cluster.answer("scontrol", "", DOWN, 1)

    told, log = cluster.run(
        down,
        *[lambda: None] * 70,
        lambda: cluster.says("RUNNING"),
        *[lambda: None] * 40,
        down,
        *[lambda: None] * 70,
        cluster.finishes,
        lambda: cluster.says("COMPLETED"),
    )
    assert told == [{"outcome": "built"}]
    assert len([line for line in log if "Unable to contact" in line]) == 2


def test_a_client_that_is_exchanged_is_waited_for(cluster: Cluster) -> None:
    program, away = cluster.folder / "scontrol", cluster.folder / "away"
    os.environ["PATH"] = str(cluster.folder)

    def remove() -> None:
        program.rename(away)

    def bring_back() -> None:
        away.rename(program)

    told, _ = cluster.run(
        remove,
        *[lambda: None] * 20,
        bring_back,
        cluster.finishes,
        lambda: cluster.says("COMPLETED"),
    )
    assert told == [{"outcome": "built"}]
    assert any("scontrol: could not be run to its end" in line for line in cluster.log)
    assert cluster.calls("scancel") == []


def test_a_job_that_waits_too_long_is_cancelled_with_its_reason(cluster: Cluster) -> None:
    def cancelled() -> None:
        if cluster.calls("scancel"):
            cluster.says("CANCELLED")

    steps = [lambda: cluster.says("PENDING", reason="Priority")] + [cancelled] * 1_000
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

    def cancelled() -> None:
        if len(cluster.calls("scancel")) > 2:
            cluster.says("CANCELLED", "0:15")

    with pytest.raises(DagsterExecutionInterruptedError):
        cluster.run(lambda: cluster.says("RUNNING"), lambda: None, interrupt, *[cancelled] * 50)
    assert len(cluster.calls("scancel")) == 3
    assert "Slurm job 7 was cancelled: CANCELLED, killed by signal 15" in cluster.log


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
