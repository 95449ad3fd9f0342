"""Single-base substitutions on a circular genome: recompute only the k tokens that contain the base."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.genome import Codes
from genolewm_assets.mito.tokens import HetPool, Ids, KmerVocabulary, pool_levels


def substitute_bases(codes: Codes, starts: NDArray[np.int64], bases: Codes, vocabulary: KmerVocabulary) -> Ids:
    """Return the tokens that contain a substituted base, for n independent substitutions.

    Parameters
    ----------
    codes
        Base codes of the genome: uint8, shape (n_bases,).
    starts
        0-based positions of the substituted bases: int64, shape (n,).
    bases
        Codes of the new bases: uint8, shape (n,).
    vocabulary
        Vocabulary that assigns the token ids.

    Returns
    -------
    ndarray
        int16 (int32 for k = 8), shape (n, k): ids of the tokens that begin at ``starts - k + 1`` to ``starts``, modulo
        n_bases.
    """
    k = vocabulary.k
    around = _around(codes, starts, k)
    around[:, k - 1] = bases
    # All rows are encoded as one sequence; k-mers that span two rows are dropped by the slice below.
    ids = vocabulary.encode_array(np.concatenate((around.ravel(), np.zeros(k - 1, dtype=np.uint8))))
    return ids.reshape(len(starts), 2 * k - 1)[:, :k]


def substitute_levels(
    levels: NDArray[np.floating[Any]],
    starts: NDArray[np.int64],
    replaced: NDArray[np.floating[Any]],
    k: int,
    het_pool: HetPool,
) -> NDArray[np.float32]:
    """Return the heteroplasmy of the tokens of :func:`substitute_bases`: float32, shape (n, k).

    Parameters
    ----------
    levels
        Level of each base of the genome, 0 to 1, shape (n_bases,).
    starts
        0-based positions of the substituted bases: int64, shape (n,).
    replaced
        Level of each substituted base, 0 to 1, shape (n,).
    k
        Bases per token.
    het_pool
        Rule that reduces the levels of a token's bases to one; see
        :func:`~genolewm_assets.mito.tokens.tokenize.tokenize_sequence`.
    """
    around = _around(levels, starts, k)
    around[:, k - 1] = replaced
    return pool_levels(around, k, het_pool).astype(np.float32)


def _around(values: NDArray[Any], starts: NDArray[np.int64], k: int) -> NDArray[Any]:
    """Return a copy of the values of the 2k - 1 bases that share a token with each base: shape (n, 2k - 1)."""
    places = starts[:, np.newaxis] + np.arange(1 - k, k)
    taken: NDArray[Any] = values[places % len(values)]
    return taken
