"""An audit finds what a mistake of a filter lets through; nothing of the build's own checks takes part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from genolewm_assets.audit import AuditReport, LeakKind, audit_package
from genolewm_assets.audit.report import Verdict
from genolewm_assets_tests.worlds.lewm.allele_mutants import ALLELE_MUTANTS
from genolewm_assets_tests.worlds.lewm.filtered_world import Inputs, build_package, make_inputs
from genolewm_assets_tests.worlds.lewm.mutants import Mutant
from genolewm_assets_tests.worlds.lewm.window_mutants import WINDOW_MUTANTS

# The stream is drawn with the trainer's dataset.
pytestmark = [pytest.mark.model, pytest.mark.slow]

#: Without a ClinVar VCF and without an encoder.
NOT_COMPARED = {LeakKind.WRONG_LABEL, LeakKind.STATE_MISMATCH}
Control = Callable[[Mutant | None], tuple[Path, AuditReport]]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return make_inputs(tmp_path_factory.mktemp("reference"))


def audit(package: Path, inputs: Inputs, least_tuples: int, holdouts: Path | None = None) -> AuditReport:
    return audit_package(package, inputs.fasta, holdouts=holdouts, least_tuples=least_tuples)


@pytest.fixture(scope="module")
def control(inputs: Inputs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Control]:
    """Return what builds and audits the package without a mistake, once per set of other filters that are off."""
    made: dict[tuple[bool, object], tuple[Path, AuditReport]] = {}

    def make(mutant: Mutant | None) -> tuple[Path, AuditReport]:
        key = (True, None) if mutant is None else (mutant.similarity, mutant.others_off)
        if key not in made:
            with pytest.MonkeyPatch.context() as patch:
                if key[1] is not None:
                    key[1](patch)
                package = build_package(inputs, tmp_path_factory.mktemp("control"), patch, similarity=key[0])
            made[key] = package, audit(package, inputs, 3_000)
        return made[key]

    yield make


def test_with_every_filter_nothing_is_found(control: Control) -> None:
    _, report = control(None)
    results = {result.kind: (result.verdict, result.reason) for result in report if result.kind not in NOT_COMPARED}
    assert results == dict.fromkeys(results, (Verdict.CLEAN, "nothing found"))
    assert len(results) == 9


@pytest.mark.parametrize("mutant", (*WINDOW_MUTANTS, *ALLELE_MUTANTS), ids=lambda mutant: mutant.name)
def test_a_mistake_is_found(
    mutant: Mutant, inputs: Inputs, control: Control, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, report = control(mutant)
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
