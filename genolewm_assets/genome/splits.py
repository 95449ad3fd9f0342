"""Names of the splits: train, validation, test."""

from __future__ import annotations

from enum import StrEnum


class Split(StrEnum):
    """Part of a data set, named as in Hugging Face datasets."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


#: Splits used for evaluation: all except train. A holdout is divided into these two.
EVALUATION: tuple[Split, ...] = (Split.VALIDATION, Split.TEST)
