"""AUROC against SciPy and against counting pairs, and its interval against resampling genes one by one."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from genolewm_assets.evaluation.scores import INTERVAL, RESAMPLES, auroc, interval, resampled_auroc


@given(pairs=st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=40))
def test_auroc_is_the_share_of_pairs_in_order(pairs):
    scores, positive = np.array([pair[0] for pair in pairs], float), np.array([pair[1] for pair in pairs], bool)
    found, n_pairs = auroc(scores, positive), int(positive.sum() * (~positive).sum())
    if not n_pairs:
        assert math.isnan(found)
        return
    assert math.isclose(found, mannwhitneyu(scores[positive], scores[~positive]).statistic / n_pairs, abs_tol=1e-12)


def test_the_interval_is_of_whole_genes():
    rng = np.random.default_rng(3)
    genes = np.repeat(np.arange(12), rng.integers(1, 9, 12)) * 7 - 20
    positive = rng.random(len(genes)) < 0.4
    scores = np.round(positive + rng.normal(size=len(genes)) + genes / 20, 1)
    drawn = np.random.default_rng(5)
    expected = []
    for _ in range(RESAMPLES):
        chosen = np.unique(genes)[drawn.integers(0, 12, 12)]
        rows = np.concatenate([np.flatnonzero(genes == gene) for gene in chosen])
        high, low = scores[rows][positive[rows]], scores[rows][~positive[rows]]
        above = (high[:, None] > low).mean() + (high[:, None] == low).mean() / 2 if len(high) and len(low) else math.nan
        expected.append(above)
    found = resampled_auroc(scores, positive, genes, seed=5)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert interval(found) == tuple(np.nanquantile(expected, INTERVAL))
    # Of one seed another score is resampled alike, so that differences are paired.
    np.testing.assert_allclose(resampled_auroc(-scores, positive, genes, seed=5), 1 - found, atol=1e-12)


def test_a_resample_without_a_class_is_no_number():
    found = resampled_auroc(np.array([0.0, 1.0]), np.array([False, True]), np.array([1, 2]), seed=0)
    assert set(found[~np.isnan(found)].tolist()) == {1.0}
    assert 0.3 < np.isnan(found).mean() < 0.7
    assert all(math.isnan(bound) for bound in interval(found[np.isnan(found)]))
