"""Simulated clinical assertions: classification terms, review statuses, and their changes between releases."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from genolewm_assets.sample.genome import Draws


class Term(StrEnum):
    """Germline classification in the wording of the newer release; :func:`old_wording` gives the older one."""

    P = "Pathogenic"
    PLP = "Pathogenic/Likely_pathogenic"
    LP = "Likely_pathogenic"
    VUS = "Uncertain_significance"
    CONFLICT = "Conflicting_classifications_of_pathogenicity"
    LB = "Likely_benign"
    BLB = "Benign/Likely_benign"
    B = "Benign"
    NOT_PROVIDED = "not_provided"
    P_LOW = "Pathogenic,_low_penetrance"
    LP_LOW = "Likely_pathogenic,_low_penetrance"
    P_DRUG = "Pathogenic|drug_response"
    PLP_RISK = "Pathogenic/Likely_pathogenic|risk_factor"
    B_OTHER = "Benign|other"
    CONFLICT_DRUG = "Conflicting_classifications_of_pathogenicity|drug_response"
    DRUG = "drug_response"
    RISK = "risk_factor"
    ASSOCIATION = "association"
    PROTECTIVE = "protective"
    AFFECTS = "Affects"
    OTHER = "other"
    LIKELY_RISK = "Likely_risk_allele"
    UNCERTAIN_RISK = "Uncertain_risk_allele"
    NO_SINGLE = "no_classification_for_the_single_variant"


#: Terms that are assigned to ``RARE_TERM_RECORDS`` alleles each, independently of the random assertions.
RARE_TERMS: tuple[Term, ...] = tuple(Term)[9:]
RARE_TERM_RECORDS = 3
_COMMON_TERMS: tuple[Term, ...] = tuple(Term)[:9]

_OLD_WORDS = (
    ("Conflicting_classifications_of", "Conflicting_interpretations_of"),
    ("no_classification_for", "no_interpretation_for"),
    ("no_classification_provided", "no_assertion_provided"),
    ("conflicting_classifications", "conflicting_interpretations"),
)
_REVIEWS = (
    ("criteria_provided,_single_submitter", 52),
    ("criteria_provided,_multiple_submitters,_no_conflicts", 24),
    ("no_assertion_criteria_provided", 12),
    ("reviewed_by_expert_panel", 10),
    ("practice_guideline", 2),
)
_FIXED_REVIEWS = {
    Term.CONFLICT: "criteria_provided,_conflicting_classifications",
    Term.CONFLICT_DRUG: "criteria_provided,_conflicting_classifications",
    Term.NOT_PROVIDED: "no_classification_provided",
    Term.NO_SINGLE: "no_classification_for_the_single_variant",
    Term.BLB: "criteria_provided,_multiple_submitters,_no_conflicts",
    Term.PLP: "criteria_provided,_multiple_submitters,_no_conflicts",
}

#: Weights of the common terms, in their order, by effect of the allele.
_TERM_WEIGHTS = {
    "truncating": (52, 14, 18, 4, 4, 1, 0, 0, 7),
    "missense": (7, 3, 8, 50, 14, 8, 2, 3, 5),
    "silent": (0, 0, 1, 9, 5, 58, 9, 15, 3),
    "common": (0, 0, 0, 3, 3, 12, 12, 68, 2),
}
#: Terms that a term may change to in the next release; repeated terms are more frequent.
_NEXT = {
    Term.VUS: (Term.LP, Term.P, Term.LB, Term.CONFLICT, Term.LB),
    Term.CONFLICT: (Term.VUS, Term.LB, Term.LP),
    Term.LP: (Term.P, Term.PLP),
    Term.P: (Term.PLP, Term.CONFLICT),
    Term.LB: (Term.BLB, Term.B, Term.CONFLICT),
    Term.NOT_PROVIDED: (Term.P, Term.VUS, Term.LB),
}
_CHANGED_SHARE = 0.14


@dataclass(frozen=True, slots=True)
class Assertion:
    """Classification and review status of one allele in one release, in the newer wording."""

    term: Term
    review: str


def old_wording(text: str) -> str:
    """Return a term or review status in the wording of releases before 2024-01-20."""
    for new, old in _OLD_WORDS:
        text = text.replace(new, old)
    return text


def draw_assertion(effect: str, draws: Draws) -> Assertion:
    """Draw the first assertion of an allele; ``effect`` is a key of ``_TERM_WEIGHTS``."""
    return _reviewed(_COMMON_TERMS[int(draws.choose(_TERM_WEIGHTS[effect], 1)[0])], draws)


def rare_assertion(number: int, draws: Draws) -> Assertion:
    """Return an assertion with the rare term of index ``number`` modulo their count."""
    return _reviewed(RARE_TERMS[number % len(RARE_TERMS)], draws)


def next_assertion(assertion: Assertion, draws: Draws) -> Assertion:
    """Return the assertion of the next release: the same, or with probability 0.14 a changed one."""
    choices = _NEXT.get(assertion.term, ())
    if not choices or draws.uniform(1)[0] >= _CHANGED_SHARE:
        return assertion
    return _reviewed(choices[int(draws.below(len(choices), 1)[0])], draws)


def _reviewed(term: Term, draws: Draws) -> Assertion:
    drawn = _REVIEWS[int(draws.choose([weight for _, weight in _REVIEWS], 1)[0])][0]
    return Assertion(term, _FIXED_REVIEWS.get(term, drawn))
