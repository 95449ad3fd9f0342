"""Which window shows an allele of an evaluation, and how much of the window has to be left of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.genome import INSET_BP

Int64s = NDArray[np.int64]

#: Default ``min_left_context_bp`` of evaluation: 256 tokens of 6 bp, the radius of a local state, so that the pooled
#: neighbourhood of every edit is complete on its left.
EVALUATION_CONTEXT_BP = 1_536


def most_central_windows(starts: Int64s, ends: Int64s, allele_starts: Int64s, allele_ends: Int64s) -> Int64s:
    """Choose the window of one contig that shows each allele best.

    Parameters
    ----------
    starts, ends
        Windows, 0-based half-open: int64, shape (n_windows,), both ascending.
    allele_starts, allele_ends
        Reference bases ``[pos - 1, pos - 1 + len(ref))`` of the alleles: int64, shape (n_alleles,).

    Returns
    -------
    ndarray
        int64, shape (n_alleles,): number of the window; -1 if none contains all bases of the allele.

    Notes
    -----
    Windows whose edge margins (64 bp) the allele does not touch are preferred, then windows with 1,536 bp left of it,
    then the window whose middle is nearest to the allele's, then the first. The choice among some of the windows is the
    choice among all of them if that one is present, so a package that holds the chosen windows alone leads to the same.
    """
    first = np.searchsorted(ends, allele_ends, side="left")
    last = np.searchsorted(starts, allele_starts, side="right")
    chosen = np.full(len(allele_starts), -1, dtype=np.int64)
    for row in np.flatnonzero(last > first):
        window = slice(first[row], last[row])
        left, right = allele_starts[row] - starts[window], ends[window] - allele_ends[row]
        crowded = np.minimum(left, right) < INSET_BP
        # lexsort sorts by its last key first, and keeps the order of equal windows.
        best = np.lexsort((np.abs(left - right), left < EVALUATION_CONTEXT_BP, crowded))[0]
        chosen[row] = first[row] + best
    return chosen
