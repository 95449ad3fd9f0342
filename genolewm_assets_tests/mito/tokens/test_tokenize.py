from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import ConfigurationError, InputError, SequenceError
from genolewm_assets.genome import encode_sequence
from genolewm_assets.mito import KmerVocabulary, decode_tokens, tokenize_batch, tokenize_sequence
from genolewm_assets_tests.referees.rcrs import RCRS_IDS_SHA256
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.strategies import circular_genomes

KEYS = ["input_ids", "attention_mask", "position_ids", "het_values"]
DTYPES = [np.int16, np.int8, np.int32, np.float32]
SIX = KmerVocabulary.build(6)


def same(left, right) -> bool:
    return all(np.array_equal(left[key], right[key]) and left[key].dtype == right[key].dtype for key in KEYS)


def levels_of(sequence: str) -> np.ndarray:
    return np.random.default_rng(len(sequence)).random(len(sequence), dtype=np.float32)


def test_rcrs_golden(rcrs, vocabulary):
    tokens = tokenize_sequence(rcrs, vocabulary, k=6, stride=1, circular=True)
    ids = tokens["input_ids"]
    assert len(ids) == 16_569
    assert hashlib.sha256(ids.astype("<i2").tobytes()).hexdigest() == RCRS_IDS_SHA256
    assert np.flatnonzero(ids == 3).tolist() == [3101, 3102, 3103, 3104, 3105, 3106]
    assert decode_tokens(ids, vocabulary) == rcrs


def test_keys_dtypes_and_defaults(genome, vocabulary):
    tokens = tokenize_sequence(genome, vocabulary)
    assert list(tokens) == KEYS
    assert [tokens[key].dtype for key in KEYS] == DTYPES
    assert all(tokens[key].shape == (16_569,) and tokens[key].flags.writeable for key in KEYS)
    assert tokens["attention_mask"].all()
    assert not tokens["het_values"].any()
    assert tokens["position_ids"].tolist() == list(range(16_569))
    assert tokenize_sequence(genome, KmerVocabulary.build(8))["input_ids"].dtype == np.int32
    linear = tokenize_sequence(genome, vocabulary, circular=False)
    assert linear["position_ids"].tolist() == list(range(16_564))


@given(circular_genomes(), st.integers(0, 200), st.integers(1, 8), st.sampled_from(["mean", "start"]))
def test_rotating_the_genome_rotates_tokens_positions_and_het(sequence, turn, k, pool):
    vocabulary, turn = KmerVocabulary.build(k), turn % len(sequence)
    levels = levels_of(sequence)
    whole = tokenize_sequence(sequence, vocabulary, het_levels=levels, het_pool=pool)
    rolled = {"het_levels": np.roll(levels, -turn), "coordinates": np.roll(np.arange(len(sequence)), -turn)}
    turned = tokenize_sequence(sequence[turn:] + sequence[:turn], vocabulary, het_pool=pool, **rolled)
    for key in KEYS:
        assert np.array_equal(np.roll(whole[key], -turn), turned[key]), key


@given(circular_genomes(), st.integers(1, 8), st.integers(1, 7))
def test_circular_is_linear_on_the_extended_sequence(sequence, k, stride):
    vocabulary, levels = KmerVocabulary.build(k), levels_of(sequence)
    circle = tokenize_sequence(sequence, vocabulary, stride=stride, het_levels=levels)
    options = {"stride": stride, "circular": False, "het_levels": np.concatenate((levels, levels[: k - 1]))}
    line = tokenize_sequence(sequence + sequence[: k - 1], vocabulary, **options)
    assert same(circle, line)


@given(st.lists(circular_genomes(), min_size=1, max_size=4), st.booleans(), st.booleans(), st.data())
def test_a_batch_is_its_genomes_one_by_one(sequences, circular, truncation, data):
    if data.draw(st.booleans()):
        sequences = [sequences[0]] * len(sequences)
    limit = data.draw(st.one_of(st.none(), st.integers(1, 250)))
    levels = [levels_of(each) if data.draw(st.booleans()) else None for each in sequences]
    places = [np.arange(len(each)) + 5 if data.draw(st.booleans()) else None for each in sequences]
    options = {"max_seq_len": limit, "circular": circular, "truncation": truncation}
    if limit is not None and not truncation and max(map(len, sequences)) > limit:
        limit = options["max_seq_len"] = 200
    batch = tokenize_batch(sequences, SIX, het_levels=levels, coordinates=places, padding=True, **options)
    width = batch["input_ids"].shape[1]
    for row, sequence in enumerate(sequences):
        options["max_seq_len"] = width if limit is None else limit
        alone = tokenize_sequence(
            sequence, SIX, het_levels=levels[row], coordinates=places[row], padding=True, **options
        )
        assert same({key: batch[key][row] for key in KEYS}, alone)


def test_all_real_genomes_pass_through_to_tokens_and_back(real_genomes, vocabulary):
    """Large enough for memory to be handed out at once."""
    assert sorted(set(map(len, real_genomes))) == [16_559, 16_567, 16_568, 16_569]
    batch = tokenize_batch(real_genomes, vocabulary, padding=True)
    assert batch["input_ids"].nbytes > 1 << 20
    assert all(batch[key].shape == (40, 16_569) for key in KEYS)
    for row, sequence in enumerate(real_genomes):
        ids = batch["input_ids"][row]
        assert decode_tokens(ids[: len(sequence)], vocabulary) == sequence.upper()
        assert not ids[len(sequence) :].any()
        assert batch["attention_mask"][row].sum() == len(sequence)
    batch["input_ids"][:] = 5


def test_rows_that_are_alike_are_held_once(vocabulary):
    batch = tokenize_batch(["ACGTACGT"] * 100, vocabulary)
    for key in KEYS[1:]:
        assert batch[key].shape == (100, 8)
        assert batch[key].strides[0] == 0
        assert not batch[key].flags.writeable
    assert tokenize_batch([], vocabulary)["input_ids"].shape == (0, 0)


@given(circular_genomes(), st.integers(1, 8), st.booleans())
def test_tokens_give_the_sequence_back_also_beside_an_unknown_base(sequence, k, circular):
    vocabulary = KmerVocabulary.build(k)
    ids = vocabulary.encode_array(sequence, circular=circular)
    kmers = [(sequence * 2)[start : start + k] for start in range(len(ids))]
    read = {(start + at) % len(sequence) for start, kmer in enumerate(kmers) if "N" not in kmer for at in range(k)}
    expected = "".join(base if at in read else "N" for at, base in enumerate(sequence))
    assert decode_tokens(ids, vocabulary, circular=circular) == expected
    if "N" not in sequence:
        assert expected == sequence


def test_tokens_that_no_sequence_has(vocabulary):
    ids = vocabulary.encode_array("ACGTACGTAA", circular=True)
    ids[3] = vocabulary.encode("TACGTC")
    with pytest.raises(SequenceError, match=r"base 8 .*two k-mers disagree about it: expected A, got C"):
        decode_tokens(ids, vocabulary)
    for wrong in ([-1], [4102], [[6]]):
        with pytest.raises(SequenceError, match="not ids of the vocabulary"):
            decode_tokens(np.array(wrong), vocabulary)
    assert decode_tokens(np.array([], dtype=np.int16), vocabulary) == ""
    assert decode_tokens(np.array([], dtype=np.int16), vocabulary, circular=False) == ""
    assert decode_tokens(np.array([2, 2], dtype=np.int16), vocabulary, circular=False) == "NNNNNNN"


def test_case_and_u(vocabulary):
    tokens = tokenize_sequence("ACGTTGCAATN", vocabulary)
    for spelt in ("acgttgcaatn", "ACGUUGCAAUN", b"acguugcaaun", encode_sequence("ACGTTGCAATN"), "ACGTTGCAATR"):
        assert same(tokenize_sequence(spelt, vocabulary), tokens)


@pytest.mark.parametrize("tokenize", [tokenize_sequence, lambda seq, *a, **o: tokenize_batch([seq], *a, **o)])
def test_k_of_sequence_and_vocabulary_must_be_one(vocabulary, tokenize):
    with pytest.raises(ConfigurationError, match="k: differs from the k of the vocabulary: expected 6, got 5"):
        tokenize("ACGTACGT", vocabulary, k=5)


def test_too_long_is_cut_only_on_request(genome, vocabulary):
    with pytest.raises(SequenceError, match=r"genome: too many tokens: expected at most 512 .* got 16569\. .*trunc"):
        tokenize_sequence(genome, vocabulary, max_seq_len=512)
    with pytest.raises(SequenceError, match="genome 1: too many tokens"):
        tokenize_batch([genome[:512], genome], vocabulary, max_seq_len=512)
    whole = tokenize_sequence(genome, vocabulary, het_levels=levels_of(genome))
    cut = tokenize_sequence(genome, vocabulary, max_seq_len=512, truncation=True, het_levels=levels_of(genome))
    assert same(cut, {key: whole[key][:512] for key in KEYS})
    assert same(tokenize_sequence(genome, vocabulary, max_seq_len=16_569), tokenize_sequence(genome, vocabulary))


def test_padding(vocabulary):
    tokens = tokenize_sequence(
        "ACGTACGT", vocabulary, max_seq_len=10, padding=True, het_levels=np.ones(8), coordinates=np.arange(8) + 50
    )
    assert tokens["input_ids"][8:].tolist() == [0, 0]
    assert tokens["attention_mask"].tolist() == [1] * 8 + [0, 0]
    assert tokens["position_ids"].tolist() == [*range(50, 58), 0, 0]
    assert tokens["het_values"].tolist() == [1.0] * 8 + [0, 0]
    assert [tokens[key].dtype for key in KEYS] == DTYPES
    assert same(tokenize_sequence("ACGTACGT", vocabulary, padding=True), tokenize_sequence("ACGTACGT", vocabulary))
    with pytest.raises(ConfigurationError, match=r"different numbers of tokens: .* got 7 to 8\. Pass"):
        tokenize_batch(["ACGTACGT", "ACGTACG"], vocabulary)


def test_het_is_a_mean_or_the_level_of_the_first_base(vocabulary):
    levels = np.zeros(10)
    levels[[2, 9]] = 0.6, 1.0
    mean = tokenize_sequence("ACGTACGTAC", vocabulary, het_levels=levels)["het_values"]
    first, last = 0.6 / 6, 1.0 / 6
    both = [first, first, first, 0, last, last, last, first + last, first + last, first + last]
    np.testing.assert_allclose(mean, both, rtol=1e-6)
    start = tokenize_sequence("ACGTACGTAC", vocabulary, het_levels=levels, het_pool="start")["het_values"]
    np.testing.assert_array_equal(start, levels.astype(np.float32))
    line = tokenize_sequence("ACGTACGTAC", vocabulary, het_levels=levels, circular=False)["het_values"]
    np.testing.assert_array_equal(line, mean[:5])
    assert tokenize_sequence("ACG", vocabulary, het_levels=[0, 0, 1], circular=False)["het_values"].shape == (0,)


@each_row(
    ("levels", "message"),
    [
        ([0, 0.5, 1.01, 0, 0, 0, 0, 0], r"base 2 .*heteroplasmy level out of range: expected 0 to 1, got 1.01"),
        ([0, 0, 0, 0, 0, 0, 0, -0.1], r"base 7 .*got -0.1"),
        ([0, 0, 0, np.nan, 0, 0, 0, 0], r"base 3 .*got nan"),
        ([0] * 7, r"het_levels: not one level per base: expected numbers of shape \(8,\), got int64 of shape \(7,\)"),
        ([[0] * 8], "het_levels: not one level per base"),
        (["a"] * 8, "het_levels: not one level per base"),
        (0.5, "het_levels: not one level per base"),
    ],
)
def test_impossible_het_levels(vocabulary, levels, message):
    with pytest.raises(InputError, match=f"genome, {message}"):
        tokenize_sequence("ACGTACGT", vocabulary, het_levels=levels)
    with pytest.raises(InputError, match=f"genome 1, {message}"):
        tokenize_batch(["ACGTACGT"] * 2, vocabulary, het_levels=[None, levels])


@each_row("coordinates", [np.arange(7), np.arange(8.0), np.arange(8) - 1, 3, np.arange(8) + 2**31])
def test_impossible_coordinates(vocabulary, coordinates):
    with pytest.raises(InputError, match="genome, coordinates: not one coordinate per base"):
        tokenize_sequence("ACGTACGT", vocabulary, coordinates=coordinates)


@each_row(
    ("options", "error", "message"),
    [
        ({"stride": 0}, SequenceError, "stride out of range"),
        ({"max_seq_len": 0}, ConfigurationError, "max_seq_len: out of range: expected at least 1"),
        ({"het_pool": "max"}, ConfigurationError, "het_pool: unknown: expected 'mean' or 'start', got 'max'"),
    ],
)
def test_impossible_options(vocabulary, options, error, message):
    with pytest.raises(error, match=message):
        tokenize_sequence("ACGTACGT", vocabulary, **options)


def test_a_circle_shorter_than_a_kmer_and_strange_symbols(vocabulary):
    for sequence in ("ACGTA", ""):
        with pytest.raises(SequenceError, match="circular sequence too short"):
            tokenize_sequence(sequence, vocabulary)
    with pytest.raises(SequenceError, match="not a nucleotide symbol"):
        tokenize_sequence("ACGT-ACGT", vocabulary)
    with pytest.raises(InputError, match="het_levels: not one per genome: expected 2, got 1"):
        tokenize_batch(["ACGTACGT"] * 2, vocabulary, het_levels=[None])
