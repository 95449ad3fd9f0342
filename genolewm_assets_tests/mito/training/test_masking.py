from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets import mito
from genolewm_assets.errors import ConfigurationError, InputError
from genolewm_assets.mito import KmerVocabulary
from genolewm_assets.mito.training.masking import BLACKLIST, MaskingCollator, MaskingRules, draw_words
from genolewm_assets.mito.training.positional_encoding import circular_harmonics, encode_circular_positions
from genolewm_assets_tests.late import Late
from genolewm_assets_tests.rows import each_row

torch = Late("torch")
torch_data = Late("torch.utils.data")
LISTED = {*range(303, 316), *range(16_184, 16_194)}


@pytest.fixture(scope="module")
def rules(vocabulary) -> MaskingRules:
    return MaskingRules(vocabulary)


@pytest.fixture(scope="module")
def dataset(genome, vocabulary) -> mito.MtDNADataset:
    return mito.MtDNADataset([genome[:3_106] + "N" + genome[3_107:], genome[::-1], genome], vocabulary)


def batches(dataset, collator, **options):
    return list(torch_data.DataLoader(dataset, batch_size=16, collate_fn=collator, **options))


def test_every_kmer_that_reads_a_listed_base_is_spared_and_no_other(rules, vocabulary):
    """Bases counted from 1, as the literature does."""
    assert {base for start, end in BLACKLIST for base in range(start + 1, end + 1)} == LISTED
    positions = np.arange(16_569)[np.newaxis]
    allowed = rules.may_be_targets(np.full_like(positions, 6), positions)[0]
    for start, may in enumerate(allowed):
        bases = {(start + offset) % 16_569 + 1 for offset in range(6)}
        assert may == (not bases & LISTED), start
    wrapping = MaskingRules(vocabulary, blacklist=((0, 2),))
    spared = np.flatnonzero(~wrapping.may_be_targets(np.full_like(positions, 6), positions)[0])
    assert spared.tolist() == [0, 1, 16_564, 16_565, 16_566, 16_567, 16_568]


def test_a_kmer_that_reads_a_listed_base_across_a_deletion_is_spared(rules):
    positions = np.r_[:250, 306:600][np.newaxis]
    spared = np.flatnonzero(~rules.may_be_targets(np.full_like(positions, 6), positions)[0])
    assert spared.tolist() == list(range(245, 259))
    # An N at base 255 makes the tokens from 250 on unknown; those before read base 250, which is listed, all the same.
    ids = np.where((positions >= 306) & (positions < 312), 3, 6)
    assert not rules.may_be_targets(ids, positions)[0, 245:250].any()


def test_special_and_unknown_tokens_are_never_targets(rules):
    ids = np.arange(12)[np.newaxis]
    assert rules.may_be_targets(ids, ids + 5_000)[0].tolist() == [False] * 6 + [True] * 6


def test_a_position_beyond_the_reference_is_no_listed_one(rules):
    positions = np.array([[16_569 + 305, 20_000]])
    assert rules.may_be_targets(np.full_like(positions, 6), positions).all()


def test_shares_and_what_targets_become(dataset, vocabulary):
    collator = MaskingCollator(MaskingRules(vocabulary), seed=1)
    plain = torch.stack([torch.from_numpy(item["input_ids"]) for item in dataset]).long()
    seen, labels = (torch.cat([b[key] for b in batches(dataset, collator)]) for key in ("input_ids", "labels"))
    target = labels != -100
    assert torch.equal(labels[target], plain[target])
    assert torch.equal(seen[~target], plain[~target])
    assert (plain[target] >= 6).all()
    n_targets, n_tokens = int(target.sum()), int((plain >= 6).sum())
    # Within five standard deviations of a binomial count.
    assert abs(n_targets / n_tokens - 0.15) < 5 * (0.15 * 0.85 / n_tokens) ** 0.5 + 0.001
    masked, kept = seen[target] == 2, seen[target] == plain[target]
    drawn = seen[target][~masked & ~kept]
    for count, share in ((masked.sum(), 0.8), (kept.sum(), 0.1), (len(drawn), 0.1)):
        assert abs(int(count) / n_targets - share) < 5 * (share * (1 - share) / n_targets) ** 0.5 + 0.001
    assert drawn.min() >= 6
    assert drawn.max() < len(vocabulary)
    assert len(torch.unique(drawn)) > 0.7 * len(drawn)


def test_a_batch_has_the_tensors_of_a_model(dataset, rules):
    batch = MaskingCollator(rules)([dataset[0], dataset[100]])
    assert list(batch) == ["input_ids", "attention_mask", "position_ids", "het_values", "labels"]
    assert {tuple(tensor.shape) for tensor in batch.values()} == {(2, 513)}
    assert batch["het_values"].dtype == torch.float32
    assert all(batch[key].dtype == torch.int64 for key in batch if key != "het_values")
    assert batch["position_ids"][1].tolist() == dataset[100]["position_ids"].tolist()


def test_batches_are_the_same_for_any_number_of_workers_and_differ_between_windows(dataset, rules):
    alone = batches(dataset, MaskingCollator(rules, seed=5))
    for workers in (1, 2):
        for left, right in zip(
            batches(dataset, MaskingCollator(rules, seed=5), num_workers=workers), alone, strict=True
        ):
            assert all(torch.equal(left[key], right[key]) for key in right)
    # Two workers that shared a stream would mask the first batches of each alike.
    masks = torch.cat([batch["labels"] != -100 for batch in alone])
    assert len(torch.unique(masks, dim=0)) == len(dataset)


def test_seed_and_epoch_decide_also_for_workers_that_stay(dataset, rules):
    def labels(collator: MaskingCollator) -> torch.Tensor:
        return torch.cat([batch["labels"] for batch in batches(dataset, collator)])

    collator = MaskingCollator(rules, seed=5)
    first = labels(collator)
    assert not torch.equal(first, labels(MaskingCollator(rules, seed=6)))
    loader = torch_data.DataLoader(dataset, batch_size=16, collate_fn=collator, num_workers=2, persistent_workers=True)
    for epoch in (0, 1, 2, 0):
        collator.set_epoch(epoch)
        found = torch.cat([batch["labels"] for batch in loader])
        assert torch.equal(found, labels(MaskingCollator(rules, seed=5, epoch=epoch)))
        assert torch.equal(found, first) == (epoch == 0)


def test_words_are_fixed_for_ever():
    """Philox is one of NumPy's streams that do not change (NEP 19); a change here masks other tokens."""
    words = draw_words(1, 2, [7, 8], 3)
    assert words.tolist() == draw_words(1, 2, [7, 8], 5)[:, :3].tolist()
    assert words[0].tolist() == [17_991_866_017_942_339_502, 1_860_861_990_675_859_472, 14_660_990_534_192_133_969]


def test_the_parts_of_a_word_say_whether_what_and_which(vocabulary):
    """From the top: 24 bits for whether it is a target, 24 for what becomes of it, 16 for the k-mer; at every bound."""
    share, masked, drawn = (round(part * (1 << 24)) for part in (0.15, 0.8, 0.1))
    drawn += masked
    words = [
        share << 40,
        (share - 1) << 40 | (masked - 1) << 16,
        (share - 1) << 40 | masked << 16,
        (share - 1) << 40 | (drawn - 1) << 16 | 0xFFFF,
        (share - 1) << 40 | drawn << 16,
        0xFFFF_FF << 16 | 0xFFFF,
    ]
    ids, positions = np.full((1, 6), 100), np.arange(6)[np.newaxis]
    seen, labels = MaskingRules(vocabulary).mask(ids, positions, np.array([words], dtype=np.uint64))
    assert seen.tolist() == [[100, 2, 6, 4101, 100, 100]]
    assert labels.tolist() == [[-100, 100, 100, 100, 100, 100]]


def test_no_and_all_tokens_can_be_targets(vocabulary, dataset):
    items = [dataset[5], dataset[6]]
    none = MaskingCollator(MaskingRules(vocabulary, share=0.0))(items)
    assert (none["labels"] == -100).all()
    rules = MaskingRules(vocabulary, share=1.0, mask_share=1.0, random_share=0.0, blacklist=())
    every = MaskingCollator(rules)(items)
    assert (every["labels"][:, 1:] != -100).all()
    assert (every["input_ids"][:, 1:] == 2).all()
    assert (every["input_ids"][:, 0] == 1).all()
    assert MaskingCollator(MaskingRules(KmerVocabulary.build(8), share=1.0, mask_share=0.0, random_share=1.0))(items)


@each_row(
    ("options", "message"),
    [
        ({"share": 1.5}, "shares out of range"),
        ({"share": float("nan")}, "shares out of range"),
        ({"mask_share": 0.8, "random_share": 0.3}, "shares out of range"),
        ({"blacklist": ((303, 16_570),)}, "outside the reference"),
        ({"blacklist": ((10, 5),)}, "outside the reference"),
    ],
)
def test_impossible_rules(vocabulary, options, message):
    with pytest.raises(ConfigurationError, match=message):
        MaskingRules(vocabulary, **options)


def test_impossible_seeds_and_items(rules, dataset):
    with pytest.raises(ConfigurationError, match="seed: out of range"):
        MaskingCollator(rules, seed=-1)
    with pytest.raises(ConfigurationError, match="epoch: out of range"):
        MaskingCollator(rules).set_epoch(-1)
    item = dataset[0]
    del item["window_index"]
    with pytest.raises(InputError, match=r"has no 'window_index'.*remove_unused_columns=False"):
        MaskingCollator(rules)([item])


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
