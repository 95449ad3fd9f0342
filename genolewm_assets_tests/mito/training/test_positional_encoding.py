from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.mito.training.positional_encoding import circular_harmonics, encode_circular_positions

LENGTH = 16_569


@given(st.integers(2, 20_000), st.data())
def test_harmonics_are_distinct_whole_numbers_from_one(length, data):
    count = data.draw(st.integers(1, min(length // 2, 600)))
    harmonics = circular_harmonics(length, count)
    assert harmonics.dtype == np.int64
    assert harmonics[0] == 1
    assert (np.diff(harmonics) > 0).all()
    assert harmonics[-1] <= length // 2


@given(st.integers(0, LENGTH - 1), st.integers(-3, 3), st.sampled_from([2, 64, 768]))
def test_the_same_place_has_the_same_features_at_every_frequency(place, turns, n_features):
    features = encode_circular_positions([place, place + turns * LENGTH], LENGTH, n_features)
    assert features.dtype == np.float32
    assert features.shape == (2, n_features)
    assert np.array_equal(features[0], features[1])


def test_features_are_sines_and_cosines_of_the_harmonics():
    places = np.array([[0, 1, 300], [8_000, 16_000, 16_568]])
    features = encode_circular_positions(places, LENGTH, 32)
    angles = 2 * np.pi * places[..., np.newaxis] * circular_harmonics(LENGTH, 16) / LENGTH
    np.testing.assert_allclose(features[..., 0::2], np.sin(angles), atol=1e-6)
    np.testing.assert_allclose(features[..., 1::2], np.cos(angles), atol=1e-6)


def test_the_seam_is_as_wide_as_any_other_step_and_all_places_differ():
    features = encode_circular_positions(np.arange(-1, LENGTH), LENGTH, 128).astype(np.float64)
    steps = np.linalg.norm(np.diff(features, axis=0), axis=1)
    np.testing.assert_allclose(steps, steps[0], rtol=1e-5)
    assert len(np.unique(features[1:], axis=0)) == LENGTH


@pytest.mark.parametrize("count", [0, 6])
def test_impossible_numbers_of_harmonics(count):
    with pytest.raises(ConfigurationError, match=f"number of harmonics out of range: expected 1 to 5, got {count}"):
        circular_harmonics(10, count)


@pytest.mark.parametrize(("positions", "n_features"), [([0.5], 4), ([1], 3)])
def test_what_cannot_be_encoded(positions, n_features):
    with pytest.raises(ConfigurationError, match="expected integers, and an even number of features"):
        encode_circular_positions(positions, LENGTH, n_features)
