"""Phased genotypes of a matrix of haplotypes."""

from __future__ import annotations

import numpy as np

from genolewm_assets.holdouts.phased import PhasedGenotypes
from genolewm_assets.variants import Bools


def genotypes_of(carried: Bools, known: Bools | None = None) -> PhasedGenotypes:
    """Return those of bool, shape (n_alleles, n_haplotypes); ``known`` is all True by default."""
    known = np.ones(len(carried), dtype=bool) if known is None else known
    return PhasedGenotypes(np.packbits(carried, axis=1), known, carried.shape[1])
