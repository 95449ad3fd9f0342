from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from genolewm_assets.errors import InputError
from genolewm_assets.states.pooling import TuplePooler, block_count, block_means, locus_blocks, pool_blocks
from genolewm_assets_tests.rows import each_row


@given(st.integers(1, 400), st.integers(1, 70), st.integers(0, 300), st.data())
def test_blocks_are_those_that_hold_a_token_of_the_neighbourhood(n_tokens, block, radius, data):
    token = data.draw(st.integers(0, n_tokens - 1))
    for side in ("both", "right"):
        covered = set()
        for other in range(n_tokens):
            near = abs(other - token) <= radius and (side == "both" or other >= token)
            covered |= {other // block} if near else set()
        start, stop = locus_blocks(token, n_tokens, radius, block, side)
        assert set(range(start, stop)) == covered


@each_row(
    ("token", "both", "right"),
    [(0, (0, 5), (0, 5)), (63, (0, 5), (0, 5)), (64, (0, 6), (1, 6)), (1024, (12, 21), (16, 21)),
     (2047, (27, 32), (31, 32))],
)  # fmt: skip
def test_blocks_of_a_full_window(token, both, right):
    assert locus_blocks(token, 2048) == both
    assert locus_blocks(token, 2048, side="right") == right


@given(st.integers(1, 300), st.integers(1, 70), st.data())
def test_pooling_blocks_is_the_mean_over_their_tokens(n_tokens, block, data):
    states = np.random.default_rng(n_tokens).normal(size=(n_tokens, 3))
    n_blocks = block_count(n_tokens, block)
    means = np.array([states[i * block : (i + 1) * block].mean(axis=0) for i in range(n_blocks)])
    padded = np.concatenate((means, np.full((2, 3), np.nan)))
    start = data.draw(st.integers(0, n_blocks - 1))
    stop = data.draw(st.integers(start + 1, n_blocks))
    wanted = states[start * block : stop * block].mean(axis=0)
    np.testing.assert_allclose(pool_blocks(padded, start, stop, n_tokens, block), wanted, rtol=1e-5, atol=1e-6)
    mean = pool_blocks(padded, 0, n_blocks, n_tokens, block)
    np.testing.assert_allclose(mean, states.mean(axis=0), rtol=1e-5, atol=1e-6)


@each_row(("start", "stop"), [(-1, 2), (2, 2), (3, 2), (0, 33)])
def test_blocks_that_are_not_the_windows_are_refused(start, stop):
    with pytest.raises(InputError, match="not blocks of the window"):
        pool_blocks(np.zeros((40, 2)), start, stop, 2048)


@pytest.mark.parametrize("token", [-1, 2048])
def test_a_locus_outside_the_window_is_refused(token):
    with pytest.raises(InputError, match="from 0 to 2047"):
        locus_blocks(token, 2048)


def states(n_tokens: int, hidden: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n_tokens, hidden)).astype(np.float32)


@each_row("n_tokens", [1, 63, 64, 65, 127, 128, 341, 2_048])
def test_a_block_is_the_mean_of_its_tokens(n_tokens: int) -> None:
    tokens = states(n_tokens)
    blocks = block_means(tokens)
    assert blocks.shape == (-(-n_tokens // 64), 3)
    assert blocks.dtype == np.float32
    for place, block in enumerate(blocks):
        np.testing.assert_allclose(block, tokens[64 * place : 64 * place + 64].mean(axis=0), rtol=1e-5, atol=1e-6)


@given(
    n_tokens=st.integers(1, 300),
    block_tokens=st.integers(1, 70),
    dtype=st.sampled_from([np.float16, np.float32]),
    seed=st.integers(0, 2**32),
)
def test_all_tuples_of_a_window_are_pooled_as_one_by_one(n_tokens, block_tokens, dtype, seed):
    rng, n_blocks = np.random.default_rng(seed), block_count(n_tokens, block_tokens)
    scales = 10.0 ** rng.integers(-9, 4, size=(n_blocks, 5))
    blocks = np.sort(rng.integers(0, n_blocks, size=(6, 2)), axis=1) + np.array([0, 1])
    means, out = (rng.normal(size=(n_blocks, 5)) * scales).astype(dtype), np.empty((6, 5), np.float32)
    assert TuplePooler().pool(means, blocks, n_tokens, block_tokens, out)
    expected = np.stack([pool_blocks(means, start, stop, n_tokens, block_tokens) for start, stop in blocks])
    assert out.tobytes() == expected.tobytes()


def test_every_half_becomes_its_single():
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = halves[np.isfinite(halves)]
    out, pooler = np.empty((len(finite), 1), np.float32), TuplePooler()
    spans = np.stack((np.arange(len(finite)), np.arange(len(finite)) + 1), axis=1)
    assert pooler.pool(finite[:, None], spans, len(finite), 1, out)
    # A sum of one number that is -0 is +0, as NumPy's is.
    assert out.ravel().tobytes() == (finite.astype(np.float32) + np.float32(0)).tobytes()
    for value in halves[~np.isfinite(halves)]:
        one = np.array([[1.0], [value]], np.float16)
        assert not pooler.pool(one, np.array([[0, 1]]), 2, 1, out[:1])
        assert not pooler.pool(one.astype(np.float32), np.array([[0, 1]]), 2, 1, out[:1])


@each_row(
    ("blocks", "shape"),
    [([[0, 33]], (1, 4)), ([[-1, 2]], (1, 4)), ([[5, 5]], (1, 4)), ([[0, 2]], (1, 3)), ([[0, 2], [1, 3]], (1, 4))],
)
def test_what_lies_outside_of_the_arrays_is_neither_read_nor_written(blocks, shape):
    """Among them states of another hidden size than those of the window before."""
    with pytest.raises(InputError, match="do not fit its tuples: expected"):
        TuplePooler().pool(np.zeros((32, 4), np.float16), np.array(blocks), 2_048, 64, np.empty(shape, np.float32))


def test_threads_that_share_a_pooler_get_their_own_means():
    rng, blocks = np.random.default_rng(0), np.array([[0, 32], [3, 5]])
    windows = rng.normal(size=(2, 32, 1_024)).astype(np.float16)
    expected = [np.stack([pool_blocks(own, *span, 2_048) for span in blocks.tolist()]) for own in windows]
    pooler = TuplePooler()

    def count_wrong(number: int) -> int:
        out, wrong = np.empty((2, 1_024), np.float32), 0
        for _ in range(5_000):
            pooler.pool(windows[number], blocks, 2_048, 64, out)
            wrong += not np.array_equal(out, expected[number])
        return wrong

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(count_wrong, range(2))) == [0, 0]
