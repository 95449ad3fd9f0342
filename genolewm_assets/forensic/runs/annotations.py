"""Alleles of samples from the allele reports of a run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import InputError
from genolewm_assets.forensic import Panel
from genolewm_assets.forensic.dataset import AlleleAnnotation, mask_of_bins, parse_allele_report, place_alleles


@dataclass(frozen=True, slots=True, repr=False)
class Annotations:
    """Alleles of samples, by the name of the sample; printed without them.

    Attributes
    ----------
    by_sample
        Alleles of each sample.
    """

    by_sample: Mapping[str, AlleleAnnotation] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Annotations({len(self.by_sample)} samples)"

    def find(self, names: Sequence[str]) -> AlleleAnnotation | None:
        """Return the alleles of the first of some names that a report has; None if it has none of them."""
        return next((self.by_sample[name] for name in names if name and name in self.by_sample), None)


def parse_annotations(texts: Mapping[str, bytes]) -> Annotations:
    """Return the alleles that allele reports state.

    Parameters
    ----------
    texts
        Content of each report by its name.

    Raises
    ------
    InputError
        As :func:`~genolewm_assets.forensic.dataset.parse_allele_report`, and if two reports name one sample.
    """
    found: dict[str, AlleleAnnotation] = {}
    for name in sorted(texts):
        own = parse_allele_report(texts[name], name)
        if twice := len(found.keys() & own.keys()):
            raise InputError(name, "names samples of another report too", expected="each sample once", got=str(twice))
        found |= own
    return Annotations(found)


def mask_alleles(
    annotation: AlleleAnnotation, panel: Panel, scaler: npt.NDArray[np.float32], n_dyes: int
) -> tuple[npt.NDArray[np.int8], int]:
    """Return the scan points in the bins of some alleles, and how many alleles have no bin.

    Parameters
    ----------
    panel
        The panel, moved by the ladder of the run.
    scaler
        Size in base pairs of each scan point, ascending: shape (n_scanpoints,).

    Returns
    -------
    mask
        1 in the bin of an allele, in the channel of its locus, else 0: int8, shape (n_dyes, n_scanpoints).
    unplaced
        Number of alleles that are in no bin of the panel.
    """
    places, unplaced = place_alleles(annotation, panel, scaler, range(1, n_dyes + 1))
    return mask_of_bins(places, (n_dyes, len(scaler))), unplaced
