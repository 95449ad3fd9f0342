"""The tokenizer that Hugging Face makes of the files gives the vocabulary's ids."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genolewm_assets.mito import KmerVocabulary
from genolewm_assets.mito.tokens.tokenizer_files import listed_tokens
from genolewm_assets.mito.tokens.vocabulary import SPECIAL_TOKENS
from genolewm_assets_tests.strategies import circular_genomes


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


@pytest.mark.slow
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
