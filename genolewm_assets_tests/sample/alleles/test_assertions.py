from __future__ import annotations

import pytest

from genolewm_assets.sample.alleles.assertions import (
    RARE_TERMS,
    Assertion,
    Term,
    draw_assertion,
    next_assertion,
    old_wording,
    rare_assertion,
)
from genolewm_assets.sample.genome.draws import Draws


@pytest.mark.parametrize(
    ("new", "old"),
    [
        ("Conflicting_classifications_of_pathogenicity", "Conflicting_interpretations_of_pathogenicity"),
        ("no_classification_for_the_single_variant", "no_interpretation_for_the_single_variant"),
        ("no_classification_provided", "no_assertion_provided"),
        (
            "criteria_provided,_conflicting_classifications",
            "criteria_provided,_conflicting_interpretations",
        ),
        ("Pathogenic/Likely_pathogenic", "Pathogenic/Likely_pathogenic"),
    ],
)
def test_old_wording(new: str, old: str) -> None:
    assert old_wording(new) == old


def test_terms_follow_the_effect() -> None:
    draws = Draws(1)
    truncating = [draw_assertion("truncating", draws).term for _ in range(500)]
    silent = [draw_assertion("silent", draws).term for _ in range(500)]
    pathogenic = {Term.P, Term.PLP, Term.LP}
    assert sum(t in pathogenic for t in truncating) > 350
    assert sum(t in pathogenic for t in silent) < 25


def test_conflicts_have_the_review_status_of_conflicts() -> None:
    draws = Draws(2)
    drawn = [draw_assertion("missense", draws) for _ in range(500)]
    assert {a.review for a in drawn if a.term is Term.CONFLICT} == {"criteria_provided,_conflicting_classifications"}
    assert len({a.review for a in drawn if a.term is Term.VUS}) == 5


def test_rare_terms_are_dealt_in_turn() -> None:
    draws = Draws(3)
    assert [rare_assertion(i, draws).term for i in range(len(RARE_TERMS) + 1)] == [*RARE_TERMS, RARE_TERMS[0]]
    assert not set(RARE_TERMS) & {draw_assertion("missense", draws).term for _ in range(300)}


def test_later_releases_change_some() -> None:
    draws = Draws(4)
    vus = Assertion(Term.VUS, "criteria_provided,_single_submitter")
    later = [next_assertion(vus, draws) for _ in range(2_000)]
    changed = [a for a in later if a != vus]
    assert 0.1 < len(changed) / len(later) < 0.18
    assert {a.term for a in changed} == {Term.LP, Term.P, Term.LB, Term.CONFLICT}
    drug = Assertion(Term.DRUG, "criteria_provided,_single_submitter")
    assert all(next_assertion(drug, draws) == drug for _ in range(100))
