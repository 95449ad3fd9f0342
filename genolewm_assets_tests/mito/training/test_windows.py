from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import WindowError
from genolewm_assets.mito.training.windows import WindowTiling

LENGTH = 16_569


def test_the_windows_of_rcrs():
    tiling, places = WindowTiling(), np.arange(LENGTH)
    assert tiling.count(LENGTH) == 65
    assert tiling.cut(places, 64 * 256).tolist() == [*range(16_384, LENGTH), *range(327)]
    coverage = tiling.coverage(LENGTH)
    assert coverage.min() == 2
    assert (coverage == 3).sum() == 142
    assert coverage.sum() == 65 * 512


@given(st.integers(1, 300), st.integers(1, 40), st.data())
def test_every_token_is_seen_and_only_short_genomes_have_short_windows(n_tokens, size, data):
    stride = data.draw(st.integers(1, size))
    circular = data.draw(st.booleans())
    tiling, tokens = WindowTiling(size, stride, circular), np.arange(n_tokens)
    windows = [tiling.cut(tokens, stride * number) for number in range(tiling.count(n_tokens))]
    assert set(np.concatenate(windows).tolist()) == set(range(n_tokens))
    assert tiling.coverage(n_tokens).tolist() == np.bincount(np.concatenate(windows)).tolist()
    for number, window in enumerate(windows):
        whole = [(stride * number + at) % n_tokens for at in range(size)]
        if n_tokens < size:
            assert window.tolist() == list(range(n_tokens))
        elif circular:
            assert window.tolist() == whole
        else:
            assert window.tolist() == whole[: n_tokens - stride * number]
            assert len(window) == size or number == len(windows) - 1
    if circular and n_tokens >= size:
        assert len(windows) == -(-n_tokens // stride)


@pytest.mark.parametrize("sizes", [(0, 1), (4, 0), (4, 5)])
def test_impossible_sizes(sizes):
    with pytest.raises(WindowError, match="1 <= stride_tokens <= window_tokens"):
        WindowTiling(*sizes)


def test_a_genome_without_tokens_has_no_window():
    with pytest.raises(WindowError, match="the genome has no token"):
        WindowTiling().count(0)
