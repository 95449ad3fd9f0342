"""Errors cross from a job to its step with their class and facts, and what is no statement is none."""

from __future__ import annotations

import errno
import json
from pathlib import Path

from genolewm_assets.defs.engines.slurm.job_messages import as_failure, failure_in, outcome_in
from genolewm_assets.errors import DeviceError, FetchError, GenoLeWMError, ResourceError, VcfError
from genolewm_assets.store.artefacts import BuildRejectedError, CheckResult
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets_tests.rows import each_row

BUILT = {"outcome": "built", "reused": False}


def crossed(err: GenoLeWMError) -> GenoLeWMError:
    found = failure_in([json.loads(json.dumps(as_failure(err)))])
    assert found is not None
    return found


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
        [],
        [None],
        ["built"],
        [BUILT, BUILT],
        [as_failure(VcfError("a", "b"))] * 2,
        [{"outcome": "failed"}],
        [{"outcome": "failed", "kind": "VcfError"}],
        [{"outcome": "failed", "kind": "SystemExit", "facts": {}, "checks": [], "system": None}],
        [{**as_failure(VcfError("a", "b")), "facts": {"where": "a"}}],
        [{**as_failure(BuildRejectedError("a", "b")), "checks": [{"nom": 1}]}],
        [{**as_failure(VcfError("a", "b")), "system": [1]}],
    ],
)
def test_what_states_no_error_is_none(messages: list[object]) -> None:
    assert failure_in(messages) is None
    assert (outcome_in(messages) is None) is (messages != [BUILT])


def test_a_success_is_no_failure() -> None:
    assert outcome_in([BUILT]) == BUILT
    assert failure_in([BUILT]) is None
