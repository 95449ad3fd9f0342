"""Map ClinVar's terms, old and new wordings, to classes and review stars, and parse its genes.

The vocabularies are closed: an unknown term is an error that names it, because a new wording that counted as "other"
would silently empty a class. Sources: ClinVar's "Representation of classifications" and "Review status" pages, the VCF
README, and the wordings of the releases since 2017 (in 2024 "interpretation" became "classification").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar

from genolewm_assets.errors import UnknownTermError, VcfError
from genolewm_assets.genome import Label

_Value = TypeVar("_Value")


class _Meaning(StrEnum):
    """Meaning of one term for the class of an allele; ``BESIDE``: the term does not affect the class."""

    P = "P"
    LP = "LP"
    LB = "LB"
    B = "B"
    VUS = "VUS"
    CONFLICT = "conflict"
    BESIDE = "beside"


_TERMS: Mapping[str, _Meaning] = {
    "pathogenic": _Meaning.P,
    "likely_pathogenic": _Meaning.LP,
    "benign": _Meaning.B,
    "likely_benign": _Meaning.LB,
    "uncertain_significance": _Meaning.VUS,
    "conflicting_interpretations_of_pathogenicity": _Meaning.CONFLICT,
    "conflicting_classifications_of_pathogenicity": _Meaning.CONFLICT,
    "conflicting_data_from_submitters": _Meaning.CONFLICT,
    **dict.fromkeys(
        (
            "low_penetrance",  # A modifier: the class of 'Pathogenic,_low_penetrance' is P.
            "established_risk_allele",
            "likely_risk_allele",
            "uncertain_risk_allele",
            "risk_allele",
            "risk_factor",
            "drug_response",
            "association",
            "association_not_found",
            "confers_sensitivity",
            "protective",
            "affects",
            "other",
            "not_provided",
            "not_specified",
            "untested",
            "no_interpretation_for_the_single_variant",
            "no_classification_for_the_single_variant",
            "no_classification_for_the_individual_variant",
            "no_classifications_from_unflagged_records",
            "no_known_pathogenicity",
        ),
        _Meaning.BESIDE,
    ),
}

_STARS: Mapping[str, int] = {
    "practice_guideline": 4,
    "reviewed_by_expert_panel": 3,
    "criteria_provided,_multiple_submitters,_no_conflicts": 2,
    "criteria_provided,_multiple_submitters": 2,
    "criteria_provided,_conflicting_interpretations": 1,
    "criteria_provided,_conflicting_classifications": 1,
    "criteria_provided,_single_submitter": 1,
    **dict.fromkeys(
        (
            "no_assertion_criteria_provided",
            "no_assertion_provided",
            "no_assertion_for_the_individual_variant",
            "no_assertion_for_the_single_variant",
            "no_interpretation_for_the_single_variant",
            "no_interpretation_for_the_individual_variant",
            "no_classification_provided",
            "no_classification_for_the_single_variant",
            "no_classification_for_the_individual_variant",
            "no_classifications_from_unflagged_records",
            "flagged_submission",
        ),
        0,
    ),
}

_SEPARATORS = re.compile(r"[|/,]_?")


def label_of(clnsig: str | None, *, where: str) -> Label:
    """Return the class of a ``CLNSIG`` value, whose terms are joined by ``/``, ``|`` or (before 2022) ``,_``.

    Terms that are not about pathogenicity have no effect. Of the other terms, P with LP gives LP, and B with LB gives
    LB; a conflict, another combination, or no term gives OTHER.
    """
    if clnsig is None:
        return Label.OTHER
    meanings = {_look_up(_TERMS, term, "CLNSIG", clnsig, where) for term in _SEPARATORS.split(clnsig)}
    meanings.discard(_Meaning.BESIDE)
    if meanings == {_Meaning.P, _Meaning.LP}:
        return Label.LP
    if meanings == {_Meaning.B, _Meaning.LB}:
        return Label.LB
    if len(meanings) == 1 and _Meaning.CONFLICT not in meanings:
        return Label(str(meanings.pop()))
    return Label.OTHER


def stars_of(clnrevstat: str | None, *, where: str) -> int:
    """Return the review stars, 0 to 4, of a ``CLNREVSTAT`` value; 0 if it is None."""
    return 0 if clnrevstat is None else _look_up(_STARS, clnrevstat, "CLNREVSTAT", clnrevstat, where)


#: HGNC symbols and NCBI's names of loci and elements, and NCBI GeneIDs.
_SYMBOL, _GENE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@#-]*"), re.compile(r"[1-9][0-9]{0,17}")


def parse_genes(geneinfo: str | None, *, where: str) -> tuple[tuple[str, ...], tuple[int | None, ...]]:
    """Split ``GENEINFO`` (``BRCA1:672|LOC126862571:126862571``) into symbols and NCBI GeneIDs, None without one."""
    symbols: list[str] = []
    identifiers: list[int | None] = []
    for gene in geneinfo.split("|") if geneinfo else ():
        symbol, colon, identifier = gene.rpartition(":") if ":" in gene else (gene, "", "")
        if not _SYMBOL.fullmatch(symbol) or (colon and not _GENE_ID.fullmatch(identifier)):
            raise VcfError(
                where,
                "INFO/GENEINFO cannot be read",
                expected="symbol:GeneID, '|' between several",
                got=repr(geneinfo),
                remedy="Report the record to ClinVar",
            )
        symbols.append(symbol)
        identifiers.append(int(identifier) if colon else None)
    return tuple(symbols), tuple(identifiers)


def _look_up(table: Mapping[str, _Value], term: str, field: str, value: str, where: str) -> _Value:
    found = table.get(term.replace(" ", "_").lower())
    if found is None:
        raise UnknownTermError(
            where,
            f"{field} term {term!r} is not in the vocabulary",
            expected="a term of sources/clinvar/terms.py",
            got=repr(value),
            remedy="Update the package, or add the term and its meaning to that file",
        )
    return found
