"""One electropherogram after pre-processing: what a model sees of a sample, and what it was made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy.typing as npt

from genolewm_assets.store.arrays import RowStamp
from genolewm_assets.store.files import JsonValue


@dataclass(frozen=True, slots=True)
class PreprocessedProfile:
    """One sample.

    Attributes
    ----------
    path
        Name of the sample's file, relative to the root of the data; distinct among the profiles of a cache.
    data
        Fluorescence, shape (n_dyes, n_scanpoints), relative fluorescence units; whole numbers within int16.
    scaler
        Size in base pairs at each scan point, shape (n_scanpoints,); rounded to float32.
    annotation
        Mask of the scan points that belong to an allele, shape (n_dyes, n_scanpoints), whole numbers within int8; None
        for a sample that nobody annotated.
    panel
        The panel adjusted to the sample's allelic ladder, JSON values only.
    alleles
        The alleles called, JSON values only.
    meta
        What else is known of the sample, JSON values only.
    stamps
        By root-relative name: every file that the profile was made from, stamped when it was read. ``path`` is one of
        them; ladder, annotation, mapping tables and panel are the others.
    """

    path: str
    data: npt.ArrayLike
    scaler: npt.ArrayLike
    stamps: Mapping[str, RowStamp]
    annotation: npt.ArrayLike | None = None
    panel: JsonValue = None
    alleles: JsonValue = None
    meta: Mapping[str, JsonValue] = field(default_factory=dict)
