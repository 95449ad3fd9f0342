"""Names of the splits (train, validation, test) and of the holdouts, each of which is divided into two of them."""

from __future__ import annotations

from enum import StrEnum


class Split(StrEnum):
    """Part of a data set, named as in Hugging Face datasets."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


class Holdout(StrEnum):
    """Names of the holdouts; training must see none of them (RFC-0006 §3.8)."""

    CHR = "holdout-chr"
    CLINVAR = "holdout-clinvar"
    HAPLOTYPES = "holdout-haplotypes"
    TEMPORAL = "holdout-temporal"


#: Splits used for evaluation: all except train. A holdout is divided into these two.
EVALUATION: tuple[Split, ...] = (Split.VALIDATION, Split.TEST)
