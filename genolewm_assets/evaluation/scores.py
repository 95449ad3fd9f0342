"""The area under the ROC curve, and its interval by resampling genes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

#: Resamples of genes of an interval, and the quantiles that bound it.
RESAMPLES, INTERVAL = 1_000, (0.025, 0.975)


def auroc(
    scores: NDArray[np.floating], positive: NDArray[np.bool_], weights: NDArray[np.floating] | None = None
) -> float:
    """Return the area under the ROC curve.

    Parameters
    ----------
    scores
        float, shape (n,), higher for what is likely positive.
    positive
        bool, shape (n,).
    weights
        float, shape (n,): how often each counts; None: once.

    Returns
    -------
    float
        The share of pairs of a positive and a negative that are in order, ties counting half; NaN without a pair.
    """
    _, place = np.unique(scores, return_inverse=True)
    return _area(place, positive, np.ones(len(scores)) if weights is None else weights)


def _area(place: NDArray[np.int64], positive: NDArray[np.bool_], weights: NDArray[np.floating]) -> float:
    above = np.bincount(place, weights * positive)
    other = np.bincount(place, weights * ~positive)
    pairs = above.sum() * other.sum()
    return float(above @ (np.cumsum(other) - other / 2) / pairs) if pairs else float("nan")


def resampled_auroc(
    scores: NDArray[np.floating], positive: NDArray[np.bool_], genes: NDArray[np.int64], *, seed: int
) -> NDArray[np.float64]:
    """Return the AUROC of each resample of whole genes, float64, shape (RESAMPLES,); NaN where one lacks a class.

    Alleles of a gene are not independent, so that resampling alleles would give too narrow an interval. Of one seed and
    the same genes all scores are resampled alike: their differences are paired.
    """
    _, gene = np.unique(genes, return_inverse=True)
    _, place = np.unique(scores, return_inverse=True)
    n, rng = int(gene.max(initial=-1)) + 1, np.random.default_rng(seed)
    drawn = (np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(RESAMPLES))
    return np.array([_area(place, positive, counts[gene].astype(np.float64)) for counts in drawn])


def interval(resampled: NDArray[np.float64]) -> tuple[float, float]:
    """Return the bounds of the 95 % interval of resampled values; NaN where none is a number."""
    known = resampled[~np.isnan(resampled)]
    low, high = np.quantile(known, INTERVAL) if len(known) else (np.nan, np.nan)
    return float(low), float(high)
