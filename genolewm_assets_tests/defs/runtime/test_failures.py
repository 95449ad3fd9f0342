"""One reading of why a step failed, whoever asks: the hook (an exception), the demo (an event), a job (a run)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from genolewm_assets.defs.runtime.failures import failure_of, reason_of
from genolewm_assets.errors import InputError

ERRORS: list[tuple[Exception, str, int]] = [
    (dg.Failure("clinvar.vcf.gz: is\n malformed.", metadata={"exit_code": 2}), "clinvar.vcf.gz: is malformed.", 2),
    (dg.Failure("no exit code is stated"), "no exit code is stated", 4),
    (ValueError("a: b\nc"), "ValueError: a: b c", 1),
    (ValueError(), "ValueError", 1),
    (InputError("x.vcf", "is wrong"), "InputError: x.vcf: is wrong.", 1),
    (RuntimeError("y" * 2_000), f"RuntimeError: {'y' * 985}…", 1),
]


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path), overrides={"telemetry": {"enabled": False}}) as opened:
        yield opened


@pytest.mark.parametrize(("error", "line", "exit_code"), ERRORS)
def test_exception_event_and_run_say_the_same(
    error: Exception, line: str, exit_code: int, instance: dg.DagsterInstance
) -> None:
    @dg.op
    def fail() -> None:
        raise error

    @dg.job
    def failing() -> None:
        fail()

    result = failing.execute_in_process(instance=instance, raise_on_error=False)
    (event,) = [each for each in result.all_events if each.is_step_failure]
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    for reason in (reason_of(error), reason_of(event), failure_of(instance, run)):
        assert (reason.line, reason.exit_code) == (line, exit_code)
        assert len(reason.line) <= 1_000


def test_a_run_that_failed_in_no_step_says_what_ended_it(instance: dg.DagsterInstance) -> None:
    run = dg.DagsterRun(job_name="job", status=dg.DagsterRunStatus.STARTED)
    instance.add_run(run)
    instance.report_run_failed(run, "The process of this run was killed.")
    assert failure_of(instance, run).line == "The process of this run was killed."
    assert reason_of(None).line == "no error was recorded"
