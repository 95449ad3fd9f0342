from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given

from genolewm_assets.encoders.tokens import DnaTokens, carbon_ranks
from genolewm_assets.errors import (
    ConfigurationError,
    CorruptResourceError,
    GenoLeWMError,
    MissingResourceError,
    SequenceError,
)
from genolewm_assets_tests.encoders.conftest import random_windows
from genolewm_assets_tests.encoders.vocabularies.other_models import write_files
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.strategies import sequences

KMERS = ["".join(bases) for bases in itertools.product("ACGT", repeat=6)]
TAGS = ["<dna>", "</dna>", "<oov>"]

#: What the published Carbon models state (vocabulary 155,776 behind Qwen3's 151,669 pieces).
CARBON = {"k": 6, "dna_start_id": 151_669, "dna_vocab_size": 4_107, "dna_special_tokens": TAGS, "auto_dna_tags": False}


def plain_ids(sequence: str, vocabulary: dict[str, int]) -> list[int]:
    """Tokenise one 6-mer after the other."""
    words = [sequence[at : at + 6].upper().replace("U", "T") for at in range(0, len(sequence) - 5, 6)]
    return [vocabulary["<dna>"], *(vocabulary.get(word, vocabulary["<oov>"]) for word in words), vocabulary["</dna>"]]


SHUFFLED = dict(zip(TAGS + KMERS, (np.random.default_rng(3).permutation(4099) + 7).tolist(), strict=True))


@pytest.fixture(scope="module")
def shuffled_tokens(tmp_path_factory: pytest.TempPathFactory) -> DnaTokens:
    return DnaTokens.from_tokenizer_files(write_files(tmp_path_factory.mktemp("m") / "v", {"vocab.json": SHUFFLED}))


@given(sequence=sequences(6, 300, alphabet="ACGTACGTACGTacgtNRYnuU"))
def test_ids_are_looked_up_kmer_by_kmer(sequence: str, shuffled_tokens: DnaTokens) -> None:
    ids = shuffled_tokens.encode(sequence)
    assert ids.dtype == np.int64
    assert ids.tolist() == plain_ids(sequence, SHUFFLED)


@each_row("sequence", ["", "ACGTA", "ACGTAC-", "ACGTAC>", "ACGTAÇ"])
def test_what_is_no_window_is_refused(sequence: str, shuffled_tokens: DnaTokens) -> None:
    with pytest.raises(SequenceError):
        shuffled_tokens.encode(sequence)


def test_tiny_llama_agrees_with_its_own_tokenizer(tiny_folder: Path) -> None:
    theirs = tokenizers.Tokenizer.from_file(str(tiny_folder / "tokenizer.json"))
    ours = DnaTokens.from_tokenizer_files(tiny_folder)
    for window in [*random_windows(3), "ACGTNNGATTACA" + "N" * 19 + "CCGGTTAACCGGAA"]:
        whole = window[: len(window) // 6 * 6]
        assert ours.encode(whole).tolist() == theirs.encode(f"<dna>{whole}</dna>", add_special_tokens=False).ids


def test_carbon_numbers_its_kmers_behind_the_text_pieces(tmp_path: Path) -> None:
    tokens = DnaTokens.from_tokenizer_files(write_files(tmp_path, {"dna_config.json": CARBON}))
    assert (tokens.leading, tokens.trailing, tokens.oov_id) == ((151_669,), (151_670,), 151_671)
    assert tokens.encode("AAAAAAATCGATNNNNNNGGGGGG").tolist() == [151_669, 151_672, 152_105, 151_671, 155_767, 151_670]
    order = {"".join(bases): rank for rank, bases in enumerate(itertools.product("ATCG", repeat=6))}
    assert carbon_ranks().tolist() == [order[kmer] for kmer in KMERS]
    assert tokens.largest_id == 155_767


def test_a_text_piece_that_spells_a_kmer_is_not_taken_for_it(hybrid_folder: Path) -> None:
    text = tokenizers.Tokenizer.from_file(str(hybrid_folder / "tokenizer.json"))
    tokens, pieces = DnaTokens.from_tokenizer_files(hybrid_folder), text.get_vocab()
    assert text.encode("AAAAAA").ids == [pieces["AAAAAA"]]
    assert pieces["AAAAAA"] not in tokens.encode("AAAAAA")
    assert min(tokens.kmer_ids.min(), *tokens.leading) >= len(pieces)
    assert len(set(tokens.kmer_ids.tolist())) == 4_096


def _bpe(vocab: object, added: object = ()) -> dict[str, Any]:
    return {"model": {"type": "BPE", "vocab": vocab, "merges": []}, "added_tokens": list(added)}  # type: ignore[call-overload]


LISTED = {token: place for place, token in enumerate(TAGS + KMERS, start=50)}
ADDED = [{"id": ident, "content": token, "special": True} for token, ident in LISTED.items()]
PIECES = {chr(code): code - 33 for code in range(33, 83)}


@pytest.mark.parametrize(
    "files",
    [
        {"tokenizer.json": _bpe({**PIECES, **LISTED})},
        {"tokenizer.json": _bpe(PIECES, ADDED)},
        {"tokenizer.json": _bpe([[token, -1.0] for token in [*PIECES, *LISTED]])},
        {"vocab.json": {**PIECES, **LISTED}},
        {"vocab.json": PIECES, "added_tokens.json": LISTED},
        {"tokenizer.json": _bpe(PIECES, ADDED), "vocab.json": PIECES},
    ],
    ids=["in the model", "added", "unigram", "vocab.json", "vocab.json and added", "tokenizer.json first"],
)
def test_every_layout_of_a_listed_vocabulary_is_read(files: dict[str, object], tmp_path: Path) -> None:
    tokens = DnaTokens.from_tokenizer_files(write_files(tmp_path, files))
    assert tokens.kmer_ids.tolist() == [LISTED[kmer] for kmer in KMERS]
    assert (tokens.leading, tokens.trailing, tokens.oov_id) == ((50,), (51,), 52)


def without(token: str) -> dict[str, int]:
    return {name: ident for name, ident in LISTED.items() if name != token}


@pytest.mark.parametrize(
    ("files", "error", "says"),
    [
        ({}, MissingResourceError, "vocab.json"),
        ({"tokenizer.json": "{"}, CorruptResourceError, "not readable as JSON"),
        ({"tokenizer.json": [1]}, CorruptResourceError, "not a JSON object"),
        ({"tokenizer.json": {"model": {}}}, ConfigurationError, "has no vocabulary"),
        ({"tokenizer.json": _bpe(PIECES)}, ConfigurationError, "4,099 of them missing, such as '<dna>'"),
        ({"vocab.json": without("GATTAC")}, ConfigurationError, "1 of them missing, such as 'GATTAC'"),
        ({"vocab.json": without("</dna>")}, ConfigurationError, "such as '</dna>'"),
        ({"vocab.json": LISTED | {"GATTAC": 50}}, ConfigurationError, "two DNA tokens have the same id"),
        ({"vocab.json": LISTED | {"GATTAC": -1}}, ConfigurationError, "expected one non-negative integer, got -1"),
        ({"vocab.json": LISTED | {"GATTAC": "5"}}, ConfigurationError, "'GATTAC' has no unique id"),
        ({"tokenizer.json": _bpe({"AAAAAA": 7}, ADDED)}, ConfigurationError, "one non-negative integer, got 7 and 53"),
        ({"dna_config.json": CARBON | {"k": 5}}, ConfigurationError, "k 5"),
        ({"dna_config.json": CARBON | {"dna_start_id": None}}, ConfigurationError, "dna_start_id None"),
        ({"dna_config.json": CARBON | {"dna_start_id": -1}}, ConfigurationError, "dna_start_id -1"),
        ({"dna_config.json": CARBON | {"dna_vocab_size": 4_098}}, ConfigurationError, "dna_vocab_size 4098"),
        ({"dna_config.json": CARBON | {"dna_special_tokens": ["<dna>", "</dna>"]}}, ConfigurationError, "'<oov>'"),
    ],
)
def test_a_vocabulary_that_is_none_is_named(
    files: dict[str, object], error: type[GenoLeWMError], says: str, tmp_path: Path
) -> None:
    with pytest.raises(error) as caught:
        DnaTokens.from_tokenizer_files(write_files(tmp_path, files))
    assert says in str(caught.value)
