"""One item of the data set."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from genolewm_assets.forensic import MemmapCacheReader
from genolewm_assets.forensic.dataset.annotations import AlleleAnnotation
from genolewm_assets.forensic.panels import Panel
from genolewm_assets.store.arrays import IndexEntry


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HIDImage:
    """One profile, as the cache has it.

    Attributes
    ----------
    data
        Fluorescence in relative fluorescence units: int16, shape (n_dyes, n_scanpoints); a row per dye in order of the
        channels, the size standard last if it is included.
    annotation
        Number of the annotation class at each point: int8, shape (n_dyes, n_scanpoints); None if nobody annotated it.
    scaler
        Size in base pairs at each point: float32, shape (n_scanpoints,), ascending.
    entry
        Its row of the index.
    """

    data: npt.NDArray[np.int16]
    annotation: npt.NDArray[np.int8] | None
    scaler: npt.NDArray[np.float32]
    entry: IndexEntry
    _reader: MemmapCacheReader = field(repr=False)

    def __repr__(self) -> str:
        return f"HIDImage(row={self.entry.row}, shape={self.data.shape})"

    @property
    def path(self) -> str:
        """Path of the instrument file relative to the root."""
        return self.entry.path

    @property
    def meta(self) -> dict[str, Any]:
        """Further facts, parsed anew for each access."""
        facts: dict[str, Any] = json.loads(self.entry.meta_json)
        return facts

    @property
    def adjusted_panel(self) -> Panel | None:
        """The kit's panel, moved by the ladder that ``meta["ladder"]`` names; made anew for each access."""
        value = self._reader.panel(self.entry.panel_key)
        return None if value is None else Panel.from_json(value)

    @property
    def allele_annotation(self) -> AlleleAnnotation | None:
        """The alleles that the mask was made from; None if it was made from spans or there is none."""
        value = self._reader.alleles(self.entry.allele_key)
        return None if value is None else AlleleAnnotation.from_json(value)


def to_arrays(image: HIDImage) -> dict[str, Any]:
    """Return an item as arrays that PyTorch's default collation makes batches of: a ``transform`` of the data set.

    They are ``data`` (int16), ``annotation`` (int8; zeros where there is none) and ``scaler`` (float32) as in
    :class:`HIDImage`, ``has_annotation`` (bool) and ``row`` (int).
    """
    known = image.annotation is not None
    mask = image.annotation if image.annotation is not None else np.zeros(image.data.shape, np.int8)
    return {
        "data": image.data,
        "annotation": mask,
        "scaler": image.scaler,
        "has_annotation": known,
        "row": image.entry.row,
    }
