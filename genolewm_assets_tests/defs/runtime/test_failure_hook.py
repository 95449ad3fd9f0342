"""The failure hook on runs that really fail, and webhooks on this machine that take it, refuse it, or never answer.

One reading of why a step failed, whoever asks: the hook (an exception), the demo (an event), a job (a run).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.storage.asset_check_execution_record import (
    AssetCheckExecutionRecord,
    AssetCheckExecutionRecordStatus,
)

from genolewm_assets.defs.assets.graph import ASSETS, GATED
from genolewm_assets.defs.operations.jobs import JOBS
from genolewm_assets.defs.runtime import failure_hook
from genolewm_assets.defs.runtime import webhook as webhook_module
from genolewm_assets.defs.runtime.failure_hook import FINAL
from genolewm_assets.defs.runtime.failures import failure_of, reason_of
from genolewm_assets.defs.runtime.webhook import UI_VARIABLE, WEBHOOK_VARIABLE
from genolewm_assets.errors import InputError
from genolewm_assets_tests.servers.webhook import (
    Webhook,
    another_scheme,
    closed_port,
    dripping_server,
    mute_server,
    no_url,
    webhook_server,
)
from genolewm_assets_tests.worlds.graph.built_world import BuiltWorld

RELEASE = "2025-01-05"


@pytest.fixture
def world(unbuilt: BuiltWorld) -> BuiltWorld:
    """Return a world in which the release of a date has another date in its header."""
    unbuilt.write_clinvar(RELEASE, header_date="2025-01-12")
    return unbuilt


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    with webhook_server() as site:
        monkeypatch.setenv(WEBHOOK_VARIABLE, site.url)
        yield site


def materialize(world: BuiltWorld) -> dg.ExecuteInProcessResult:
    """Fail as the UI's Materialize button would: in the implicit job of all assets."""
    return world.graph.resolve_implicit_global_asset_job_def().execute_in_process(
        instance=world.instance,
        partition_key=RELEASE,
        asset_selection=[dg.AssetKey(["clinvar", "release"])],
        raise_on_error=False,
    )


def refresh(world: BuiltWorld) -> dg.ExecuteInProcessResult:
    return world.run_job("refresh_release", partition_key=RELEASE)


def logged(world: BuiltWorld, result: dg.ExecuteInProcessResult, level: str) -> list[str]:
    """Return what the run itself wrote into its log, but for the steps that were not begun."""
    number = {"error": 40, "warning": 30}[level]
    own = (
        each for each in world.instance.all_logs(result.run_id) if each.level == number and not each.is_dagster_event
    )
    return [entry.user_message for entry in own if not entry.user_message.startswith("Dependencies for step")]


Run = Callable[[BuiltWorld], dg.ExecuteInProcessResult]


@pytest.mark.parametrize("run", [materialize, refresh], ids=["implicit job", "refresh_release"])
def test_a_failed_asset_is_logged_and_posted(
    world: BuiltWorld, webhook: Webhook, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(UI_VARIABLE, "https://dagster.example/")
    result = run(world)
    assert not result.success
    (line,) = logged(world, result, "error")
    error, _, pages = line.removeprefix(f"clinvar/release[{RELEASE}] failed: ").partition(" See ")
    check = "release_key_equals_header_date"
    page = f"https://dagster.example/assets/clinvar/release?view=checks&checkDetail={check}"
    assert pages == page
    said = f"clinvar/release[{RELEASE}]: the build failed its checks ['{check}'] ({check}: header_date "
    assert error.startswith(said)
    of_run = {"run_id": result.run_id, "run_url": f"https://dagster.example/runs/{result.run_id}", "url": page}
    of_step = {"step": "clinvar__release", "asset": "clinvar/release", "partition": RELEASE, "error": error}
    assert webhook.posted == [{"job": result.job_def.name, **of_run, **of_step}]
    assert logged(world, result, "warning") == []
    assert FINAL.items() <= world.instance.get_run_by_id(result.run_id).tags.items()


def test_a_run_that_something_unforeseen_ended_may_be_launched_again(world: BuiltWorld) -> None:
    @dg.asset(hooks={failure_hook.report_failure})
    def unforeseen() -> None:
        raise ConnectionError("the database is away")

    result = dg.materialize([unforeseen], instance=world.instance, raise_on_error=False)
    line = f"unforeseen failed: ConnectionError: the database is away See /runs/{result.run_id}"
    assert logged(world, result, "error") == [line]
    assert not FINAL.keys() & world.instance.get_run_by_id(result.run_id).tags.keys()


def test_a_failed_job_without_assets_is_reported_too(world: BuiltWorld, webhook: Webhook) -> None:
    assert world.run_job("verify_all").success
    assert webhook.posted == []
    world.catalog.write_text("name: [")
    result = world.run_job("verify_all")
    assert not result.success
    (posted,) = webhook.posted
    stated = {"job": "verify_all", "step": "verify_files", "asset": None, "partition": None}
    assert stated.items() <= posted.items()
    assert "catalog.yaml" in str(posted["error"])
    assert posted["url"] == posted["run_url"] == f"/runs/{result.run_id}"


def test_a_release_that_fails_again_is_posted_again(world: BuiltWorld, webhook: Webhook) -> None:
    runs = [refresh(world).run_id for _ in range(2)]
    assert [posted["run_id"] for posted in webhook.posted] == runs


def test_a_build_without_its_inputs_leads_to_the_check_that_says_which(world: BuiltWorld) -> None:
    (line,) = logged(world, world.materialize("gnomad/shard", partition="chr17"), "error")
    assert line.endswith(" See /assets/gnomad/shard?view=checks&checkDetail=inputs_accepted")


def test_a_pointer_without_a_package_leads_to_its_check(world: BuiltWorld, webhook: Webhook) -> None:
    assert not world.materialize("packages/current").success
    (posted,) = webhook.posted
    assert posted["url"] == "/assets/packages/current?view=checks&checkDetail=package_verifies"


def test_without_a_webhook_there_is_a_line_only(world: BuiltWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WEBHOOK_VARIABLE, raising=False)
    result = materialize(world)
    assert (len(logged(world, result, "error")), logged(world, result, "warning")) == (1, [])


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        (mute_server, "no answer within 0.5 s"),
        (dripping_server, "no answer within 0.5 s"),
        (closed_port, "Connection refused"),
        (another_scheme, f"{WEBHOOK_VARIABLE} is not an http(s) URL"),
        (no_url, "ValueError"),
    ],
)
def test_a_webhook_that_takes_nothing_changes_nothing(
    world: BuiltWorld, monkeypatch: pytest.MonkeyPatch, server: Callable[[], Iterator[str]], problem: str
) -> None:
    monkeypatch.setattr(webhook_module, "TIMEOUT_S", 0.5)
    with server() as url:
        monkeypatch.setenv(WEBHOOK_VARIABLE, url)
        result = materialize(world)
    undisturbed = [event.event_type_value for event in result.all_events]
    (warning,) = logged(world, result, "warning")
    assert problem in warning
    assert "secret" not in warning
    assert "HOOK_ERRORED" not in undisturbed
    assert undisturbed[-1] == "PIPELINE_FAILURE"


def test_a_webhook_that_answers_500_is_named_without_its_secret(world: BuiltWorld, webhook: Webhook) -> None:
    webhook.status = 500
    result = materialize(world)
    (warning,) = logged(world, result, "warning")
    assert warning.startswith("the failure was not posted to the webhook: HTTP 500")
    assert "secret" not in "".join(entry.user_message for entry in world.instance.all_logs(result.run_id))


def test_every_asset_and_every_job_of_ops_has_the_hook() -> None:
    made = [{hook.name for hook in asset.hook_defs} for asset in ASSETS if asset.is_materializable]
    assert made == [{"report_failure"}] * len(made)
    hooks = {job.name: getattr(job, "hooks", None) or getattr(job, "hook_defs", None) or () for job in JOBS}
    hooked = {name for name, each in hooks.items() if "report_failure" in {hook.name for hook in each}}
    # The assets of this one have it themselves.
    assert {job.name for job in JOBS} - hooked == {"refresh_release"}


def test_checks_that_a_run_does_not_reach_have_no_result(world: BuiltWorld) -> None:
    new = "2025-06-01"
    world.make("reference/genome")
    world.register_release(new, header_date="2025-06-08")
    result = world.materialize("clinvar/release", "clinvar/shard", "mito/variants", partition=new)
    assert not result.success

    def results(asset: str, name: str) -> list[AssetCheckExecutionRecord]:
        key = dg.AssetCheckKey(dg.AssetKey(asset.split("/")), name)
        return list(world.instance.event_log_storage.get_asset_check_execution_history(key, limit=1))

    for asset in ("clinvar/shard", "mito/variants"):
        assert not any(results(asset, name) for name in GATED[asset].check_names)
    # What did not read it keeps its results.
    (found,) = results("reference/genome", "contigs_match_pins")
    assert found.status is AssetCheckExecutionRecordStatus.SUCCEEDED


ERRORS: list[tuple[Exception, str, int]] = [
    (dg.Failure("clinvar.vcf.gz: is\n malformed.", metadata={"exit_code": 2}), "clinvar.vcf.gz: is malformed.", 2),
    (dg.Failure("no exit code is stated"), "no exit code is stated", 4),
    (ValueError("a: b\nc"), "ValueError: a: b c", 1),
    (ValueError(), "ValueError", 1),
    (KeyError("x"), "KeyError: 'x'", 1),
    (InputError("x.vcf", "is wrong"), "InputError: x.vcf: is wrong.", 1),
    (RuntimeError("y" * 2_000), f"RuntimeError: {'y' * 985}…", 1),
]


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path), overrides={"telemetry": {"enabled": False}}) as opened:
        yield opened


@pytest.mark.parametrize(("error", "line", "exit_code"), ERRORS)
def test_error_event_and_run_agree(error: Exception, line: str, exit_code: int, instance: dg.DagsterInstance) -> None:
    @dg.op
    def fail() -> None:
        raise error

    @dg.job
    def failing() -> None:
        fail()

    result = failing.execute_in_process(instance=instance, raise_on_error=False)
    (event,) = [each for each in result.all_events if each.is_step_failure]
    run = instance.get_run_by_id(result.run_id)
    for reason in (reason_of(error), reason_of(event), failure_of(instance, run)):
        assert (reason.line, reason.exit_code) == (line, exit_code)
        assert len(reason.line) <= 1_000


def test_a_run_that_failed_in_no_step_says_what_ended_it(instance: dg.DagsterInstance) -> None:
    run = dg.DagsterRun(job_name="job", status=dg.DagsterRunStatus.STARTED)
    instance.add_run(run)
    instance.report_run_failed(run, "The process of this run was killed.")
    assert failure_of(instance, run).line == "The process of this run was killed."
    assert reason_of(None).line == "no error was recorded"
