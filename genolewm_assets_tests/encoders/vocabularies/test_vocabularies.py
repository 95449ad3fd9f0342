"""Which kind of vocabulary a model has, and what its ids are, against the model's own tokenizers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tokenizers

from genolewm_assets.encoders import read_identity
from genolewm_assets.encoders.vocabularies import PROBE, read_tokens
from genolewm_assets.errors import ConfigurationError, CorruptResourceError, GenoLeWMError, MissingResourceError
from genolewm_assets_tests.encoders.conftest import random_windows
from genolewm_assets_tests.encoders.vocabularies.other_models import (
    CHARACTERS,
    MASKED,
    SIX_MERS,
    character_tokenizer,
    masked_tokenizer,
    write_files,
)
from genolewm_assets_tests.late import Late

transformers = Late("transformers")

RNA = [*CHARACTERS[:-2], "U", "N"]
BYTES = {"tokenizer_class": "ByteTokenizer", "byte_level": True}


def six_mer_tokenizer(unknown: str | None = "<unk>") -> dict[str, Any]:
    """Return a ``tokenizer.json`` of 6-mers without tags."""
    made = character_tokenizer(before=None, after=None)
    made["model"]["vocab"] = {token: ident for ident, token in enumerate(MASKED)}
    made["model"]["unk_token"] = unknown or "none"
    made["added_tokens"] = []
    made["pre_tokenizer"]["pattern"] = {"Regex": ".{6}"}
    return made


def merging_tokenizer() -> dict[str, Any]:
    """Return a ``tokenizer.json`` of byte pairs, in which AC and GT are one token each."""
    vocab = {token: ident for ident, token in enumerate([*"ACGTN", "AC", "GT"])}
    model = {"type": "BPE", "vocab": vocab, "merges": [["A", "C"], ["G", "T"]]}
    return {**character_tokenizer(after=None), "added_tokens": [], "pre_tokenizer": None, "model": model}


@pytest.mark.parametrize(
    ("files", "template", "bp", "special"),
    [
        ({"tokenizer.json": character_tokenizer()}, "{sequence}[SEP]", 1, ((), (1,))),
        ({"tokenizer.json": character_tokenizer(before="[CLS]")}, "[CLS]{sequence}[SEP]", 1, ((0,), (1,))),
        ({"tokenizer.json": character_tokenizer(before="[BOS]", after=None)}, "[BOS]{sequence}", 1, ((2,), ())),
        ({"tokenizer.json": character_tokenizer(after=None)}, "{sequence}", 1, ((), ())),
        ({"tokenizer_config.json": {"tokenizer_class": "HyenaDNATokenizer"}}, "{sequence}[SEP]", 1, ((), (1,))),
        ({"tokenizer_config.json": BYTES}, "{sequence}", 1, ((), ())),
        (masked_tokenizer(), "<cls>{sequence}", 6, ((3,), ())),
        (masked_tokenizer(eos_token="<eos>"), "<cls>{sequence}<eos>", 6, ((3,), (4_105,))),
        (masked_tokenizer(cls_token={"content": "<bos>"}), "<bos>{sequence}", 6, ((4_106,), ())),
        ({"tokenizer.json": six_mer_tokenizer()}, "{sequence}", 6, ((), ())),
    ],
)
def test_special_tokens_are_those_of_the_model_s_tokenizer(
    files: dict[str, object], template: str, bp: int, special: tuple[tuple[int, ...], ...], tmp_path: Path
) -> None:
    tokens = read_tokens(write_files(tmp_path, files))
    assert (tokens.prompt_template, tokens.bp_per_token, tokens.per_six_mer) == (template, bp, 6 // bp)
    assert (tokens.leading, tokens.trailing) == special
    assert tokens.n_special == sum(map(len, special))
    write_files(tmp_path, {"config.json": {"num_hidden_layers": 2, "hidden_size": 32}, "model.safetensors": "weights"})
    recipe = read_identity(tmp_path).as_recipe()
    assert (recipe["prompt_template"], recipe["bp_per_token"]) == (template, bp)


@pytest.mark.parametrize("name", ["vocab.txt", "tokenizer_config.json", "special_tokens_map.json"])
def test_files_that_decide_the_special_tokens_count_for_the_identity(name: str, tmp_path: Path) -> None:
    config = {"num_hidden_layers": 2, "hidden_size": 32}
    write_files(tmp_path, {**masked_tokenizer(), "config.json": config, "model.safetensors": "weights"})
    before = read_identity(tmp_path)
    (tmp_path / name).write_text((tmp_path / name).read_text() + "\n")
    assert read_identity(tmp_path).settings_sha256 != before.settings_sha256


def test_single_bases_are_the_tokenizer_s(tmp_path: Path) -> None:
    write_files(tmp_path, {"tokenizer.json": character_tokenizer(before="[CLS]")})
    own, tokens = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json")), read_tokens(tmp_path)
    for window in [*random_windows(2, 60), "ACGTNNGATTAC", PROBE]:
        assert tokens.encode(window).tolist() == own.encode(window).ids
    # A symbol that the vocabulary lacks is N, not [UNK]: the sequence has a base there.
    assert tokens.encode("acgRtt").tolist() == tokens.encode("ACGNTT").tolist()
    assert tokens.largest_id == 11


@pytest.mark.parametrize("eos", [None, "<eos>"])
def test_masked_6_mers_are_those_of_the_library(eos: str | None, tmp_path: Path) -> None:
    write_files(tmp_path, masked_tokenizer(eos_token=eos))
    own, tokens = transformers.AutoTokenizer.from_pretrained(tmp_path), read_tokens(tmp_path)
    assert type(own).__name__ == "EsmTokenizer"
    for window in [*random_windows(3, 600), "".join(SIX_MERS)]:
        assert tokens.encode(window).tolist() == own(window)["input_ids"]
    # The library would split the second 6-mer into six letters.
    assert len(own("ACGTACGGNTTAACGTAC")["input_ids"]) == len(tokens.encode("ACGTACGGNTTAACGTAC")) + 5
    assert tokens.encode("ACGTACGGNTTAACGTAC")[2] == MASKED.index("<unk>")


def without(token: str) -> dict[str, object]:
    return {**masked_tokenizer(), "vocab.txt": "\n".join(one for one in MASKED if one != token)}


@pytest.mark.parametrize(
    ("files", "error", "says"),
    [
        ({}, MissingResourceError, "vocab.json"),
        ({"tokenizer_config.json": {}}, ConfigurationError, "tokenizer_class None"),
        ({"tokenizer_config.json": {"tokenizer_class": "ByteTokenizer"}}, ConfigurationError, "with byte_level true"),
        ({"tokenizer_config.json": {"tokenizer_class": "OwnTokenizer"}}, ConfigurationError, "'OwnTokenizer'"),
        ({"tokenizer.json": merging_tokenizer()}, ConfigurationError, "got tokens A A A A ... for"),
        ({"tokenizer.json": {"model": {"vocab": {}}}}, CorruptResourceError, "not readable as a tokenizer"),
        ({"tokenizer.json": six_mer_tokenizer(unknown=None)}, ConfigurationError, "no token for a base"),
        ({"tokenizer.json": character_tokenizer(tokens=RNA)}, ConfigurationError, "not a DNA vocabulary of a known"),
        (masked_tokenizer(tokenizer_class="BertTokenizer"), ConfigurationError, "'BertTokenizer'"),
        (masked_tokenizer(eos_token="<end>"), ConfigurationError, "a line '<end>'"),
        (masked_tokenizer(cls_token=None), ConfigurationError, "a line None"),
        (without("<unk>"), ConfigurationError, "a line '<unk>'"),
        (without("GATTAC"), ConfigurationError, "the token 'AAAAAA'"),
        ({**masked_tokenizer(), "vocab.txt": "<cls>\n<unk>\n<pad>\nA\nC"}, ConfigurationError, "without A, C, G and T"),
        ({**masked_tokenizer(), "vocab.txt": "<cls>\n<unk>\nA\nC\nG\nT\nL"}, ConfigurationError, "the token 'L'"),
        ({**masked_tokenizer(), "vocab.txt": "\n".join([*MASKED, "ACG"])}, ConfigurationError, "the token 'ACG'"),
        ({"vocab.json": {"A": 0, "C": 1, "G": 2, "T": 3}}, ConfigurationError, "of them missing, such as '<dna>'"),
    ],
)
def test_no_kind_is_guessed(files: dict[str, object], error: type[GenoLeWMError], says: str, tmp_path: Path) -> None:
    with pytest.raises(error) as caught:
        read_tokens(write_files(tmp_path, files))
    assert says in str(caught.value)
