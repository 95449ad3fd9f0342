from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.encoders import StateDtype, block_means, global_mean, pool_blocks
from genolewm_assets.encoders.pooling import store_states
from genolewm_assets.errors import ConfigurationError, CorruptResourceError


def states(n_tokens: int, hidden: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n_tokens, hidden)).astype(np.float32)


@pytest.mark.parametrize("n_tokens", [1, 63, 64, 65, 127, 128, 341, 2_048])
def test_a_block_is_the_mean_of_its_tokens(n_tokens: int) -> None:
    tokens = states(n_tokens)
    blocks = block_means(tokens)
    assert blocks.shape == (-(-n_tokens // 64), 3)
    assert blocks.dtype == np.float32
    for place, block in enumerate(blocks):
        np.testing.assert_allclose(block, tokens[64 * place : 64 * place + 64].mean(axis=0), rtol=1e-5, atol=1e-6)


@given(n_tokens=st.integers(1, 200), block_tokens=st.integers(1, 70), seed=st.integers(0, 9))
def test_blocks_pool_to_the_mean_of_their_tokens(n_tokens: int, block_tokens: int, seed: int) -> None:
    tokens = states(n_tokens, seed=seed)
    blocks = block_means(tokens, block_tokens)
    np.testing.assert_allclose(global_mean(blocks, n_tokens, block_tokens), tokens.mean(axis=0), rtol=1e-4, atol=1e-5)
    last = len(blocks) - 1
    pooled = pool_blocks(blocks, last // 2, last + 1, n_tokens, block_tokens)
    np.testing.assert_allclose(pooled, tokens[last // 2 * block_tokens :].mean(axis=0), rtol=1e-4, atol=1e-5)


def test_states_are_stored_in_the_asked_dtype() -> None:
    values = np.array([[65_504.0, -65_504.0, 1 / 3]], dtype=np.float32)
    assert store_states(values, StateDtype.FLOAT16, where="x").tolist() == values.astype(np.float16).tolist()
    assert store_states(values, StateDtype.FLOAT32, where="x").tobytes() == values.tobytes()


@pytest.mark.parametrize("value", [65_520.0, -1e5, 3e38])
def test_a_state_that_float16_cannot_hold_is_refused(value: float) -> None:
    values = np.array([[0.0, value]], dtype=np.float32)
    assert np.isfinite(store_states(values, StateDtype.FLOAT32, where="x")).all()
    with pytest.raises(ConfigurationError, match="does not fit float16"):
        store_states(values, StateDtype.FLOAT16, where="encoder x")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", list(StateDtype))
def test_a_state_that_is_not_finite_is_refused(value: float, dtype: StateDtype) -> None:
    with pytest.raises(CorruptResourceError, match="not finite"):
        store_states(np.array([[0.0, value]], dtype=np.float32), dtype, where="encoder x")
