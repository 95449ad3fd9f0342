"""How many tokens and bases a model reads at once, and what is said of windows that are longer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from genolewm_assets.encoders.context import check_window_fits, context_tokens, longest_window_bp
from genolewm_assets.encoders.model_files import locate_model
from genolewm_assets.encoders.vocabularies import read_tokens
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import WindowProfile
from genolewm_assets_tests.encoders.vocabularies.other_models import character_tokenizer, masked_tokenizer, write_files

NO_LIMIT = int(1e30)
CHARACTERS = {"tokenizer.json": character_tokenizer()}


@pytest.mark.parametrize(
    ("config", "model_max_length", "tokens"),
    [
        ({"max_position_embeddings": 2_048}, None, 2_048),
        ({"max_position_embeddings": 2_048}, NO_LIMIT, 2_048),
        ({"max_position_embeddings": 2_048}, 1_024, 1_024),
        ({"n_positions": 512}, None, 512),
        ({"max_seq_len": 1_026}, None, 1_026),
        ({"max_seqlen": 8_192}, None, 8_192),
        ({}, 1_000, 1_000),
        ({}, None, None),
        ({"model_type": "esm", "max_position_embeddings": 1_002, "pad_token_id": 1}, None, 1_000),
        (
            {
                "model_type": "esm",
                "max_position_embeddings": 2_050,
                "pad_token_id": 1,
                "position_embedding_type": "rotary",
            },
            2_048,
            2_048,
        ),
        ({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}, None, 512),
        ({"model_type": "llama", "max_position_embeddings": 514, "pad_token_id": 1}, None, 514),
    ],
)
def test_the_context_is_what_the_files_state(
    config: dict[str, object], model_max_length: int | None, tokens: int | None, tmp_path: Path
) -> None:
    files = {"config.json": config}
    if model_max_length is not None:
        files["tokenizer_config.json"] = {"model_max_length": model_max_length}
    assert context_tokens(locate_model(write_files(tmp_path, files))) == tokens


@pytest.mark.parametrize(
    ("files", "context", "longest", "says"),
    [
        (CHARACTERS, 2_048, 2_046, "profile: bp1920, window_bp: 1920, stride_bp: 1278"),
        (CHARACTERS, 100, 96, "profile: bp96, window_bp: 96, stride_bp: 60"),
        (CHARACTERS, 6, 0, "a model with a longer context"),
        (masked_tokenizer(), 1_000, 5_994, "profile: bp5760, window_bp: 5760, stride_bp: 3840"),
        (masked_tokenizer(), 2_048, 12_282, "profile: bp11904, window_bp: 11904, stride_bp: 7932"),
    ],
)
def test_longer_windows_are_refused_with_a_profile_that_fits(
    files: dict[str, object], context: int, longest: int, says: str, tmp_path: Path
) -> None:
    given = {**files, "config.json": {"max_position_embeddings": context}}
    given["tokenizer_config.json"] = {"tokenizer_class": "EsmTokenizer", "eos_token": None}
    model = locate_model(write_files(tmp_path, given))
    tokens = read_tokens(model.folder)
    assert longest_window_bp(model, tokens) == longest
    for size_bp in {longest, longest + 5} - {0, 5}:
        check_window_fits(model, tokens, size_bp)
    for size_bp in (longest + 6, 12_288):
        with pytest.raises(ConfigurationError) as caught:
            check_window_fits(model, tokens, size_bp)
        assert f"expected at most {longest:,} bp" in str(caught.value)
        assert f"got {size_bp:,} bp" in str(caught.value)
        assert says in str(caught.value)
    written = re.search(r"'(windows: .*?)'", str(caught.value))
    if longest:
        assert written is not None
        section = yaml.safe_load(written[1])["windows"]
        profile = WindowProfile(section["profile"], window_bp=section["window_bp"], stride_bp=section["stride_bp"])
        check_window_fits(model, tokens, profile.window_bp)


def test_a_built_in_profile_that_fits_is_named(tmp_path: Path) -> None:
    model = locate_model(write_files(tmp_path, {**CHARACTERS, "config.json": {"n_positions": 12_289}}))
    tokens = read_tokens(model.folder)
    check_window_fits(model, tokens, 12_288)
    with pytest.raises(ConfigurationError, match="Use the window profile default or dense"):
        check_window_fits(model, tokens, 16_384)


def test_a_model_without_a_stated_context_reads_every_window(tmp_path: Path) -> None:
    model = locate_model(write_files(tmp_path, {**CHARACTERS, "config.json": {}}))
    assert longest_window_bp(model, read_tokens(model.folder)) is None
    check_window_fits(model, read_tokens(model.folder), 10**9)
