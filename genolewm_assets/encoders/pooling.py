"""Block means: from the states of a window's DNA tokens to the row that is cached.

NumPy only, so that the same arithmetic runs behind every device. What is done with a row afterwards, round a locus or
over the window, is ``lewm.state_pooling``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.encoders.identity import StateDtype
from genolewm_assets.errors import ConfigurationError, CorruptResourceError
from genolewm_assets.lewm.state_pooling import BLOCK_TOKENS, block_count


def block_means(states: NDArray[np.float32], block_tokens: int = BLOCK_TOKENS) -> NDArray[np.float32]:
    """Average the states of consecutive blocks of tokens.

    Parameters
    ----------
    states
        float32, shape (n_tokens, hidden): DNA tokens only, tags excluded.

    Returns
    -------
    ndarray
        float32, shape (n_blocks, hidden). The last block averages the tokens it has.
    """
    n_tokens, hidden = states.shape
    n_blocks = block_count(n_tokens, block_tokens)
    whole = n_tokens // block_tokens
    means = np.empty((n_blocks, hidden), dtype=np.float64)
    # Sums in double precision: the order of addition cannot then show in the float32 result.
    blocks = states[: whole * block_tokens].reshape(whole, block_tokens, hidden)
    blocks.mean(axis=1, dtype=np.float64, out=means[:whole])
    if n_blocks > whole:
        states[whole * block_tokens :].mean(axis=0, dtype=np.float64, out=means[whole])
    return means.astype(np.float32)


def store_states(states: NDArray[np.float32], dtype: StateDtype, *, where: str) -> NDArray[Any]:
    """Round states to their stored dtype.

    Raises
    ------
    CorruptResourceError
        If a state is not finite: the model's weights are damaged.
    ConfigurationError
        If a state is too large for the dtype.
    """
    if not np.isfinite(states).all():
        raise CorruptResourceError(where, "hidden states are not finite", remedy="Check the model's weights")
    largest = float(np.abs(states).max(initial=0.0))
    if dtype is StateDtype.FLOAT16 and largest > float(np.finfo(np.float16).max):
        raise ConfigurationError(
            where,
            "a state does not fit float16",
            expected=f"at most {np.finfo(np.float16).max:g}",
            got=f"{largest:g}",
            remedy="Store the states as float32, or choose a layer behind a norm",
        )
    return states.astype(dtype.value)
