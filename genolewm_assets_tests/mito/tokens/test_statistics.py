"""The tokenizer that Hugging Face makes of the files gives the vocabulary's ids."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genolewm_assets.errors import InputError
from genolewm_assets.mito import KmerVocabulary, tokenize_sequence
from genolewm_assets.mito.tokens.plan import TokenRow
from genolewm_assets.mito.tokens.statistics import describe_tokens
from genolewm_assets.mito.tokens.vocabulary import SPECIAL_TOKENS, listed_tokens
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.strategies import circular_genomes


def row(sequence, vocabulary, coordinates=None) -> TokenRow:
    tokens = tokenize_sequence(sequence, vocabulary, coordinates=coordinates)
    return TokenRow(tokens["input_ids"], None, None if coordinates is None else tokens["position_ids"])


@given(st.lists(circular_genomes(), max_size=5), st.integers(1, 3), st.booleans())
def test_figures_equal_plain_counting(sequences, k, with_coordinates):
    vocabulary, length = KmerVocabulary.build(k), 210
    places = [(np.arange(len(each)) * 2) % length if with_coordinates else None for each in sequences]
    rows = [row(each, vocabulary, place) for each, place in zip(sequences, places, strict=True)]
    found = describe_tokens(rows, vocabulary, length=length, most=3)
    kmers, columns = Counter(), [Counter() for _ in range(length)]
    for sequence, place in zip(sequences, places, strict=True):
        for at in range(len(sequence)):
            kmer = (sequence * 2)[at : at + k]
            kmers[kmer] += 1
            if "N" not in kmer:
                columns[at if place is None else place[at]][kmer] += 1
    clean = {kmer: count for kmer, count in kmers.items() if "N" not in kmer}
    assert (found.n_genomes, found.n_tokens) == (len(sequences), sum(kmers.values()))
    assert found.n_unknown == found.n_tokens - sum(clean.values())
    assert (found.n_kmers, found.n_kmers_seen) == (4**k, len(clean))
    assert found.most_frequent == tuple(sorted(clean.items(), key=lambda each: (-each[1], each[0]))[:3])
    assert found.unknown_rate == (found.n_unknown / found.n_tokens if sequences else 0)
    for column, bits in zip(columns, found.entropy_bits, strict=True):
        shares = np.array(list(column.values())) / max(1, sum(column.values()))
        expected = -(shares * np.log2(shares)).sum() if column else np.nan
        np.testing.assert_allclose(bits, expected, atol=1e-12)


def test_padding_does_not_count(vocabulary):
    ids = np.array([0, 6, 7, 1], dtype=np.int16)
    found = describe_tokens([TokenRow(ids, None, None)], vocabulary, length=4)
    assert (found.n_tokens, found.n_kmers_seen, found.most_frequent) == (3, 2, (("AAAAAA", 1), ("AAAAAC", 1)))


@each_row(
    ("given", "message"),
    [
        (TokenRow(np.array([6] * 5, np.int16), None, None), "a position out of range: expected 0 to 3, got 0 to 4"),
        (TokenRow(np.array([6], np.int16), None, np.array([-1], np.int32)), "a position out of range"),
        (TokenRow(np.array([4102], np.int16), None, None), "a token id out of range: expected 0 to 4101"),
    ],
)
def test_what_is_beyond_the_circle_or_the_vocabulary(vocabulary, given, message):
    with pytest.raises(InputError, match=message):
        describe_tokens([given], vocabulary, length=4)


@pytest.fixture(scope="module")
def load(tmp_path_factory):
    """Return the tokenizer of a k, loaded from its folder without network and without code of the folder."""
    transformers = pytest.importorskip("transformers")
    made = {}

    def of(k: int):
        if k not in made:
            folder = tmp_path_factory.mktemp(f"k{k}")
            KmerVocabulary.build(k).save_pretrained(folder)
            made[k] = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        return made[k]

    return of


@settings(max_examples=15)
@given(circular_genomes(0, 60), st.sampled_from([1, 2, 3, 6]))
def test_a_sequence_has_the_ids_of_the_vocabulary(load, sequence, k):
    ids = KmerVocabulary.build(k).encode_array(sequence).tolist()
    for text in (sequence, sequence.lower().replace("t", "u"), f" {sequence}\n"):
        assert load(k)(text)["input_ids"] == ids
    kmers = [sequence[start : start + k] for start in range(len(sequence) - k + 1)]
    assert load(k)(" ".join(kmers))["input_ids"] == ids


def test_rcrs_has_the_ids_of_the_vocabulary(load, rcrs, vocabulary):
    ids = load(6)(rcrs + rcrs[:5])["input_ids"]
    assert ids == vocabulary.encode_array(rcrs, circular=True).tolist()


def test_words_are_sequences_of_their_own_and_special_tokens_stay(load):
    vocabulary = KmerVocabulary.build(3)
    expected = [vocabulary.encode(token) for token in ("ACG", "CGT", "[MASK]", "GGG", "[HET]")]
    assert load(3)("ACGT [MASK] AC\nGGG[HET]")["input_ids"] == expected
    assert load(3)("AC-GT")["input_ids"] == [3, 3, 3]


def test_it_knows_the_special_tokens_and_pads_with_them(load):
    tokenizer = load(6)
    assert len(tokenizer) == tokenizer.vocab_size == 4102
    assert set(tokenizer.all_special_tokens) == set(SPECIAL_TOKENS)
    assert (tokenizer.pad_token_id, tokenizer.cls_token_id, tokenizer.mask_token_id) == (0, 1, 2)
    assert (tokenizer.unk_token_id, tokenizer.sep_token_id) == (3, 4)
    batch = tokenizer(["ACGTAC", "ACGTACG"], padding=True)
    assert batch["input_ids"] == [[439, 0], [439, 1740]]
    assert batch["attention_mask"] == [[1, 0], [1, 1]]
    assert tokenizer.decode([439, 1740]) == "ACGTAC CGTACG"


def test_what_hugging_face_saves_again_is_accepted_beside_the_vocabulary(load, tmp_path):
    KmerVocabulary.build(3).save_pretrained(tmp_path)
    load(3).save_pretrained(tmp_path)
    assert KmerVocabulary.from_pretrained(tmp_path).k == 3


def test_a_tokenizer_without_a_list_has_no_ids():
    for document in ({}, {"model": None}, {"model": {"vocab": [["A", 0.0]]}}):
        assert listed_tokens(document) == {}
