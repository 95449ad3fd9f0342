"""Clinical classes of alleles, abbreviated from ClinVar's classifications, and sets of classes."""

from __future__ import annotations

from enum import StrEnum


class Label(StrEnum):
    """Clinical class of an allele, from its aggregate germline classification in ClinVar.

    P pathogenic, LP likely pathogenic, LB likely benign, B benign, VUS uncertain significance, OTHER anything else.
    """

    P = "P"
    LP = "LP"
    B = "B"
    LB = "LB"
    VUS = "VUS"
    OTHER = "OTHER"


#: All classes, from pathogenic to benign: the order of rows and columns in matrices of class changes.
CLASSES: tuple[str, ...] = ("P", "LP", "VUS", "LB", "B", "OTHER")
#: Pathogenic classes.
HARMFUL: tuple[str, ...] = ("P", "LP")
#: Pathogenic and benign classes: the allele's effect is decided.
DECIDED: tuple[str, ...] = ("P", "LP", "B", "LB")
