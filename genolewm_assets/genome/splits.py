"""Splits of anything that a model is trained and judged on."""

from __future__ import annotations

from enum import StrEnum


class Split(StrEnum):
    """Training and its holdouts, under the names that Hugging Face datasets gives them."""

    TRAIN = "train"
    VALIDATION = "validation"
    TEST = "test"


#: The parts of a holdout: all splits but training.
EVALUATION: tuple[Split, ...] = (Split.VALIDATION, Split.TEST)
