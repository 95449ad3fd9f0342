"""One pre-processed electropherogram: arrays for a model, stamps of its files, and the row that a store has of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import InputError
from genolewm_assets.store.arrays import ArraySpec, RowStamp
from genolewm_assets.store.files import JsonValue

#: Names of the arrays; each array's file is ``<name>.bin``.
DATA, ANNOTATION, SCALER = "data", "annotation", "scaler"
#: Names of the side-cars, values that many profiles share; their files are ``panels.json`` and ``alleles.json``.
PANEL, ALLELE = "panel", "allele"
#: Column of the index: False if the annotation array holds zeros because the profile has no annotation.
HAS_ANNOTATION = "has_annotation"


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


def profile_arrays(shape: tuple[int, int]) -> tuple[ArraySpec, ...]:
    """Return the arrays of a store of profiles with the shape (n_dyes, n_scanpoints)."""
    return (
        ArraySpec(DATA, shape, "int16"),
        ArraySpec(ANNOTATION, shape, "int8"),
        ArraySpec(SCALER, shape[1:], "float32"),
    )


def profile_row(image: PreprocessedProfile, shape: tuple[int, int]) -> dict[str, Any]:
    """Return a profile as the arguments of ``ArrayStoreWriter.write``: row, key, meta and side-cars.

    A profile without annotation has zeros in its place.

    Raises
    ------
    InputError
        If panel or alleles have no JSON form.
    """
    placeholder = np.zeros(shape, np.int8)
    annotation = placeholder if image.annotation is None else image.annotation
    shared = {PANEL: image.panel, ALLELE: image.alleles}
    return {
        "row": {DATA: image.data, ANNOTATION: annotation, SCALER: _as_float32(image.scaler)},
        "key": image.path,
        "meta": {**image.meta, HAS_ANNOTATION: image.annotation is not None},
        "sidecars": {name: _json_text(value, image.path) for name, value in shared.items() if value is not None},
    }


def _json_text(value: JsonValue, where: str) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as err:
        raise InputError(where, f"panel or alleles cannot be written as JSON ({err})") from err


def _as_float32(values: npt.ArrayLike) -> npt.NDArray[Any]:
    """Round floats to float32; if a value overflows, return the array unrounded, which the store then rejects."""
    array = np.asarray(values)
    with np.errstate(over="ignore"):
        rounded = array.astype(np.float32) if array.dtype.kind == "f" else array
    return array if (np.isinf(rounded) != np.isinf(array)).any() else rounded
