"""Classes of clinical variants, as this platform spells ClinVar's, and the sets of them that are asked for."""

from __future__ import annotations

from enum import StrEnum


class Label(StrEnum):
    """Class of an allele, from its aggregate germline classification alone."""

    P = "P"
    LP = "LP"
    LB = "LB"
    B = "B"
    VUS = "VUS"
    OTHER = "OTHER"


#: From harmful to harmless: the order of every from -> to matrix.
CLASSES: tuple[str, ...] = ("P", "LP", "VUS", "LB", "B", "OTHER")
HARMFUL: tuple[str, ...] = ("P", "LP")
#: Classes that say harmful or harmless.
DECIDED: tuple[str, ...] = ("P", "LP", "B", "LB")
