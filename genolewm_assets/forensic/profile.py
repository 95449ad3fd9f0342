"""One pre-processed electropherogram: arrays for a model, and stamps of the files it was made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy.typing as npt

from genolewm_assets.store.arrays import RowStamp
from genolewm_assets.store.files import JsonValue


@dataclass(frozen=True, slots=True)
class PreprocessedProfile:
    """The pre-processed electropherogram of one sample.

    Attributes
    ----------
    path
        Name of the sample's file relative to the root of the data; unique among the profiles of a cache.
    data
        Fluorescence in relative fluorescence units, shape (n_dyes, n_scanpoints); whole numbers in the range of int16.
    scaler
        Size in base pairs at each scan point, shape (n_scanpoints,); rounded to float32.
    stamps
        Stamps of every file that the profile was made from, by root-relative name: ``path`` itself, ladder,
        annotation, mapping tables, panel. Each was taken when the file was read.
    annotation
        Mask of the scan points that belong to an allele, shape (n_dyes, n_scanpoints), whole numbers in the range of
        int8; None if the sample has no annotation.
    panel
        Panel adjusted to the sample's allelic ladder; JSON values only.
    alleles
        Alleles called; JSON values only.
    meta
        Further facts about the sample; JSON values only.
    """

    path: str
    data: npt.ArrayLike
    scaler: npt.ArrayLike
    stamps: Mapping[str, RowStamp]
    annotation: npt.ArrayLike | None = None
    panel: JsonValue = None
    alleles: JsonValue = None
    meta: Mapping[str, JsonValue] = field(default_factory=dict)
