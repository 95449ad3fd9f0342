"""Single-base substitutions on a circular genome: the k tokens that read the base, and no others, are new."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.genome import Codes
from genolewm_assets.mito.tokens import HetPool, Ids, KmerVocabulary, pool_levels


def substitute_bases(codes: Codes, starts: NDArray[np.int64], bases: Codes, vocabulary: KmerVocabulary) -> Ids:
    """Return the tokens that read a base which is replaced, for many replacements, each on its own.

    Parameters
    ----------
    codes
        Base codes of the genome, shape (n_bases,).
    starts
        0-based places of the bases, shape (n,).
    bases
        Codes of what stands there instead, shape (n,).

    Returns
    -------
    ndarray
        Shape (n, k): ids of the tokens at ``starts - k + 1`` to ``starts``, round the circle.
    """
    k = vocabulary.k
    around = _around(codes, starts, k)
    around[:, k - 1] = bases
    # One long sequence, of which the k-mers that begin in the last k - 1 bases of a stretch are not used.
    ids = vocabulary.encode_array(np.concatenate((around.ravel(), np.zeros(k - 1, dtype=np.uint8))))
    return ids.reshape(len(starts), 2 * k - 1)[:, :k]


def substitute_levels(
    levels: NDArray[np.floating[Any]],
    starts: NDArray[np.int64],
    replaced: NDArray[np.floating[Any]],
    k: int,
    het_pool: HetPool,
) -> NDArray[np.float32]:
    """Return the heteroplasmy of the same tokens where each base has the level ``replaced``: shape (n, k)."""
    around = _around(levels, starts, k)
    around[:, k - 1] = replaced
    return pool_levels(around, k, het_pool).astype(np.float32)


def _around(values: NDArray[Any], starts: NDArray[np.int64], k: int) -> NDArray[Any]:
    """Return the values that the tokens of a base read: shape (n, 2k - 1), copied."""
    places = starts[:, np.newaxis] + np.arange(1 - k, k)
    taken: NDArray[Any] = values[places % len(values)]
    return taken
