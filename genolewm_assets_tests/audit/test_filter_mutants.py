"""An audit finds what a mistake of a filter lets through; nothing of the build's own checks takes part."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from genolewm_assets.audit import AuditReport, LeakKind, audit_package
from genolewm_assets.audit.report import Verdict
from genolewm_assets_tests.worlds.lewm.allele_mutants import ALLELE_MUTANTS
from genolewm_assets_tests.worlds.lewm.filtered_world import Inputs, build_package, make_inputs
from genolewm_assets_tests.worlds.lewm.mutants import STREAM_TUPLES, Mutant, Mutate
from genolewm_assets_tests.worlds.lewm.window_mutants import WINDOW_MUTANTS

pytestmark = pytest.mark.nightly

#: Without a ClinVar VCF, without an encoder, and in a package that asks for no review stars.
NOT_COMPARED = {LeakKind.WRONG_LABEL, LeakKind.UNSHOWN_ALLELE, LeakKind.STATE_MISMATCH, LeakKind.FEW_STARS}
Control = Callable[[bool, Mutate | None, int], tuple[Path, AuditReport]]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return make_inputs(tmp_path_factory.mktemp("reference"))


def audit(package: Path, inputs: Inputs, least_tuples: int, holdouts: Path | None = None) -> AuditReport:
    return audit_package(package, inputs.fasta, holdouts=holdouts, least_tuples=least_tuples)


@pytest.fixture(scope="module")
def control(inputs: Inputs, tmp_path_factory: pytest.TempPathFactory) -> Control:
    """Return what builds and audits the package without a mistake, once per set of other filters that are off."""

    @cache
    def make(similarity: bool, others_off: Mutate | None, least_tuples: int) -> tuple[Path, AuditReport]:
        with pytest.MonkeyPatch.context() as patch:
            if others_off is not None:
                others_off(patch)
            package = build_package(inputs, tmp_path_factory.mktemp("control"), patch, similarity=similarity)
        return package, audit(package, inputs, least_tuples)

    return make


def parameter(mutant: Mutant) -> object:
    """Return the parameter of a test; where the stream is drawn, with the trainer's dataset, the test is marked so."""
    return pytest.param(mutant, id=mutant.name, marks=[pytest.mark.model] if mutant.least_tuples else [])


@pytest.mark.model
def test_with_every_filter_nothing_is_found(control: Control) -> None:
    _, report = control(True, None, STREAM_TUPLES)
    results = {result.kind: (result.verdict, result.reason) for result in report if result.kind not in NOT_COMPARED}
    assert results == dict.fromkeys(results, (Verdict.CLEAN, "nothing found"))
    assert len(results) == 11


@pytest.mark.parametrize("mutant", [parameter(one) for one in (*WINDOW_MUTANTS, *ALLELE_MUTANTS)])
def test_a_mistake_is_found(
    mutant: Mutant, inputs: Inputs, control: Control, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, report = control(mutant.similarity, mutant.others_off, mutant.least_tuples)
    assert [key for key in report[mutant.kind].found.keys if mutant.finds in key] == []
    with monkeypatch.context() as patch:
        if mutant.others_off is not None:
            mutant.others_off(patch)
        mutant.mutate(patch)
        package = build_package(inputs, tmp_path, patch, similarity=mutant.similarity)
        told = sound / "holdouts" if mutant.told else None
        result = audit(package, inputs, mutant.least_tuples, told)[mutant.kind]
    assert result.verdict is Verdict.LEAK
    assert [key for key in result.found.keys if mutant.finds in key]
