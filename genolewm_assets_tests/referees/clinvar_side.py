"""The side of a ClinVar classification, read from its text."""

from __future__ import annotations


def plain_class(text: str) -> str:
    """Return P/LP, B/LB, or nothing for a CLNSIG that names neither side or both."""
    terms = {term.split(",")[0].removesuffix("_low_penetrance") for part in text.split("|") for term in part.split("/")}
    pathogenic = terms & {"Pathogenic", "Likely_pathogenic"}
    benign = terms & {"Benign", "Likely_benign"}
    if pathogenic and not benign and not any("onflicting" in term for term in terms):
        return "P/LP"
    return "B/LB" if benign and not pathogenic and not any("onflicting" in term for term in terms) else ""
