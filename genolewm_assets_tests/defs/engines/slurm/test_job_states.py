"""Every state of Slurm has one meaning, and nothing that ``scontrol`` prints is taken for a success but success."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.defs.engines.slurm.job_states import PHASES, Phase, parse_job
from genolewm_assets_tests.rows import each_row

#: ``squeue(1)`` of Slurm 25.05, "Job state codes", and what each has to mean.
DOCUMENTED = {
    Phase.PENDING: "PENDING CONFIGURING RESV_DEL_HOLD POWER_UP_NODE",
    Phase.RUNNING: "RUNNING EXPEDITING RESIZING SIGNALING STAGE_OUT STOPPED SUSPENDED",
    Phase.ENDING: "COMPLETING UPDATE_DB",
    Phase.ENDED: "COMPLETED",
    Phase.FAILED: "BOOT_FAIL CANCELLED DEADLINE FAILED LAUNCH_FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED RECONFIG_FAIL "
    "REQUEUED REQUEUE_FED REQUEUE_HOLD REVOKED SPECIAL_EXIT TIMEOUT",
}
STATES = [(state, phase) for phase, states in DOCUMENTED.items() for state in states.split()]

#: Texts of people: what follows the state may say anything.
HOSTILE = st.one_of(
    st.text(st.characters(exclude_characters="\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=60),
    st.sampled_from(["JobState=COMPLETED", "ExitCode=0:0", "JobId=7 JobName=job"]),
    st.just(" JobState=COMPLETED Reason=None Restarts=0 ExitCode=0:0 NodeList=x"),
)


def shown(
    state: str = "COMPLETED",
    exit_code: str = "0:0",
    *,
    reason: str = "None",
    restarts: int = 0,
    command: str = "/job.sh",
    comment: str = "run=1",
) -> str:
    """Return what ``scontrol show job --oneliner`` of Slurm 22.05 prints."""
    return (
        "JobId=7 JobName=job UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901759 Nice=0 Account=(null) "
        f"QOS=(null) JobState={state} Reason={reason} Dependency=(null) Requeue=0 Restarts={restarts} BatchFlag=1 "
        f"Reboot=0 ExitCode={exit_code} RunTime=00:00:01 TimeLimit=UNLIMITED TimeMin=N/A "
        "SubmitTime=2026-11-24T13:27:06 Partition=h100 AllocNode:Sid=localhost:2888 ReqNodeList=(null) "
        f"ExcNodeList=(null) NodeList=h100-1 BatchHost=h100-1 NumNodes=1 CPUs/Task=1 Command={command} "
        f"WorkDir=/ Comment={comment}  StdErr=/o StdIn=/dev/null StdOut=/o Power= TresPerNode=gres:gpu:h100:1 \n"
    )


def test_the_table_is_the_one_of_the_documentation() -> None:
    assert dict(STATES) == PHASES


@each_row(("state", "phase"), STATES)
def test_a_state_has_one_meaning(state: str, phase: Phase) -> None:
    view = parse_job(shown(state))
    assert (view.phase, view.succeeded) == (phase, state == "COMPLETED")


@each_row(
    "text",
    [
        *("", "\n", "No jobs in the system\n", "slurm_load_jobs error: Invalid job id specified\n"),
        *(shown("COMPLETE"), shown("COMPLETED+"), shown("completed"), shown("COMPLETED,COMPLETING")),
        *(shown("NEW_STATE"), shown("COMPLETED", "0"), shown("COMPLETED", "-1:0")),
        *(shown("COMPLETED", "0:0:0").replace("ExitCode=0:0:0", "ExitCode="), shown() + shown("RUNNING")),
        *(shown()[: shown().index("ExitCode")], shown().replace("Restarts=0", ""), f" {shown()}"),
        '{"jobs": [{"job_state": "COMPLETED", "exit_code": 0}]}',
    ],
)
def test_what_is_no_known_state_of_one_job_is_no_answer(text: str) -> None:
    assert parse_job(text) is None


@given(st.sampled_from(sorted(PHASES)), st.integers(0, 255), st.integers(0, 64), HOSTILE, HOSTILE)
def test_fields_of_people_change_nothing(state: str, status: int, signal: int, command: str, comment: str) -> None:
    view = parse_job(shown(state, f"{status}:{signal}", command=command, comment=comment))
    assert (view.state, view.exit_code, view.nodes) == (state, f"{status}:{signal}", "h100-1")
    assert view.succeeded is ((state, status, signal) == ("COMPLETED", 0, 0))


@given(st.text(max_size=300))
def test_no_text_is_a_success_by_chance(text: str) -> None:
    assert parse_job(text) is None


@given(st.integers(0, len(shown()) - 1), st.text(min_size=1, max_size=3))
def test_a_damaged_answer_is_a_success_only_if_it_still_says_so(at: int, what: str) -> None:
    text = shown("FAILED", "1:0")
    view = parse_job(text[:at] + what + text[at + 1 :])
    assert view is None or not view.succeeded


@given(st.integers(0, len(shown()) - 1))
def test_half_an_answer_is_none_or_the_whole_one(at: int) -> None:
    view = parse_job(shown("RUNNING")[:at])
    assert view is None or (view.state, view.phase) == ("RUNNING", Phase.RUNNING)
