from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import ConfigurationError, CorruptResourceError, MissingResourceError, SequenceError
from genolewm_assets.genome import encode_sequence
from genolewm_assets.mito import KmerVocabulary
from genolewm_assets.mito.tokens.vocabulary import SPECIAL_TOKENS
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.strategies import circular_genomes


def test_the_example_of_the_specification(vocabulary):
    assert len(vocabulary) == 4102
    assert [vocabulary.decode(i) for i in range(7)] == [*SPECIAL_TOKENS, "AAAAAA"]
    assert (vocabulary.encode("AAAAAA"), vocabulary.encode("TTTTTT"), vocabulary.encode("ACGTAN")) == (6, 4101, 3)
    assert vocabulary.encode("uacgtn"[:5] + "a") == vocabulary.encode("TACGTA")


@each_row("k", range(1, 9))
def test_ids_are_those_of_the_sorted_list_of_all_kmers(k):
    vocabulary = KmerVocabulary.build(k)
    kmers = sorted("".join(kmer) for kmer in product("ACGT", repeat=k))
    assert len(vocabulary) == len(kmers) + 6
    assert vocabulary.id_dtype is (np.int32 if k == 8 else np.int16)
    for rank in {0, 1, len(kmers) // 3, len(kmers) - 1}:
        assert vocabulary.encode(kmers[rank]) == rank + 6
        assert vocabulary.decode(rank + 6) == kmers[rank]
    ids = vocabulary.encode_array("".join(kmers[-50:]), stride=k)
    assert ids.dtype == vocabulary.id_dtype
    assert ids.tolist() == list(range(max(6, len(vocabulary) - 50), len(vocabulary)))


@given(circular_genomes(), st.integers(1, 8), st.integers(1, 7), st.booleans())
def test_an_array_of_ids_is_each_kmer_by_itself(sequence, k, stride, circular):
    vocabulary = KmerVocabulary.build(k)
    starts = range(0, len(sequence) if circular else len(sequence) - k + 1, stride)
    expected = [vocabulary.encode((sequence * 2)[start : start + k]) for start in starts]
    for form in (sequence, sequence.lower().encode(), encode_sequence(sequence)):
        assert vocabulary.encode_array(form, stride=stride, circular=circular).tolist() == expected


@given(st.integers(1, 8), st.data())
def test_decoding_inverts_encoding(k, data):
    vocabulary = KmerVocabulary.build(k)
    token_id = data.draw(st.integers(0, len(vocabulary) - 1))
    assert vocabulary.encode(vocabulary.decode(token_id)) == token_id


@each_row("k", [0, 9, -1, 6.0, True, "6", None])
def test_k_out_of_range(k):
    with pytest.raises(ConfigurationError, match="k out of range: expected a whole number from 1 to 8"):
        KmerVocabulary.build(k)


def test_tokens_and_ids_that_do_not_exist(vocabulary):
    for token_id in (-1, 4102):
        with pytest.raises(SequenceError, match="no such id: expected 0 to 4101"):
            vocabulary.decode(token_id)
    for token in ("ACGTA", "ACGTACG", "[mask]?"):
        with pytest.raises(SequenceError, match="wrong length: expected 6 bases"):
            vocabulary.encode(token)
    with pytest.raises(SequenceError, match=r"base 3 .*not a nucleotide symbol"):
        vocabulary.encode("ACG-TA")


@pytest.mark.parametrize("k", [1, 6])
def test_a_saved_vocabulary_is_read_again_and_its_bytes_depend_on_k_alone(tmp_path, k):
    for name in ("one", "deep/er"):
        KmerVocabulary.build(k).save_pretrained(tmp_path / name)
    assert KmerVocabulary.from_pretrained(str(tmp_path / "one")) == KmerVocabulary.build(k)
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "deep" / "er" / file.name).read_bytes()
    config = json.loads((tmp_path / "one" / "vocab_config.json").read_bytes())
    assert config["k"] == k
    assert config["special_tokens"] == list(SPECIAL_TOKENS)
    assert config["format_version"] == 1
    assert len(config["sha256"]) == 64


def test_a_missing_folder_is_an_error_and_no_download(tmp_path, monkeypatch):
    def no_network(*_arguments: object) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr("socket.socket.connect", no_network)
    monkeypatch.chdir(tmp_path)
    for name in ("bert-base-uncased", "google/bert", tmp_path / "nowhere"):
        with pytest.raises(MissingResourceError, match=r"vocab_config.json: cannot be read .*are not looked up\."):
            KmerVocabulary.from_pretrained(name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": 5}, "altered in 'n_tokens'"),
        ({"k": 5, "n_tokens": 1030}, "altered in 'sha256'"),
        ({"k": 9}, "k out of range: expected a whole number from 1 to 8, got 9"),
        ({"k": None}, "k out of range"),
        ({"special_tokens": ["[CLS]", "[PAD]", "[MASK]", "[UNK]", "[SEP]", "[HET]"]}, "altered in 'special_tokens'"),
        ({"sha256": "0" * 64}, "altered in 'sha256'"),
        ({"format_version": 2}, "can read: expected format 'genolewm.kmer_vocabulary', version 1, got .* 2"),
        ({"format": "bert"}, "not a vocabulary that this code can read"),
        ({"more": 1}, r"unknown entries: expected none, got \['more'\]"),
    ],
)
def test_an_altered_file_is_refused(tmp_path, vocabulary, change, message):
    vocabulary.save_pretrained(tmp_path)
    path = tmp_path / "vocab_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(CorruptResourceError, match=message):
        KmerVocabulary.from_pretrained(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b"[" * 100_000])
def test_a_file_that_is_no_json_object_is_refused(tmp_path, content):
    (tmp_path / "vocab_config.json").write_bytes(content)
    with pytest.raises(CorruptResourceError, match=r"not readable as JSON|not a JSON object"):
        KmerVocabulary.from_pretrained(tmp_path)


def test_a_tokenizer_with_other_ids_beside_it_is_refused(tmp_path, vocabulary):
    vocabulary.save_pretrained(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_text(path.read_text().replace('"AAAAAA": 6,', '"AAAAAA": 7,').replace('"AAAAAC": 7,', '"AAAAAC": 6,'))
    with pytest.raises(CorruptResourceError, match="its ids are not those of the vocabulary beside it"):
        KmerVocabulary.from_pretrained(tmp_path)
    path.unlink()
    assert KmerVocabulary.from_pretrained(tmp_path) == vocabulary
