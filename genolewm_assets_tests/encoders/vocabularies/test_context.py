"""How many tokens and bases a model reads at once, and what is said of windows that are longer.

Our ids are compared with those of the model's own tokenizer wherever it can run.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from genolewm_assets.encoders.context import check_window_fits, context_tokens, longest_window_bp
from genolewm_assets.encoders.model_files import ModelFiles, locate_model
from genolewm_assets.encoders.tokens import DnaTokens
from genolewm_assets.encoders.vocabularies import read_tokens
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import WindowProfile
from genolewm_assets_tests.encoders.vocabularies.other_models import character_tokenizer, masked_tokenizer, write_files
from genolewm_assets_tests.late import Late

NO_LIMIT, NAMES = int(1e30), ("max_position_embeddings", "n_positions", "max_seq_len", "max_seqlen")
CHARACTERS = {"tokenizer.json": character_tokenizer()}
ESM = {"model_type": "esm", "pad_token_id": 1}


@pytest.mark.parametrize(
    ("config", "model_max_length", "tokens"),
    [
        *(({name: 2_048}, limit, limit or 2_048) for name in NAMES for limit in (None, 1_024)),
        ({"max_position_embeddings": 2_048}, NO_LIMIT, 2_048),
        ({}, 1_000, 1_000),
        ({}, None, None),
        ({**ESM, "max_position_embeddings": 1_002}, None, 1_000),
        ({**ESM, "max_position_embeddings": 2_050, "position_embedding_type": "rotary"}, 2_048, 2_048),
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


model_tokenizer = Late("genolewm_assets.encoders.model_loading")
FAST = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "unk_token": "[UNK]"}


def check(folder: Path, tokens: DnaTokens | None = None) -> None:
    files = ModelFiles(folder, folder.name, None, code_trusted=False)
    model_tokenizer.check_model_tokenizer(files, tokens or read_tokens(folder))


def shifted(tokens: DnaTokens) -> DnaTokens:
    """Return tokens whose first k-mer has another id."""
    names = [("first", ident) for ident in tokens.leading], [("last", ident) for ident in tokens.trailing]
    ids = [999_999, *tokens.kmer_ids.tolist()[1:]]
    return DnaTokens.checked("tokens", ids, tokens.oov_id, leading=names[0], trailing=names[1])


@pytest.mark.parametrize(
    "files",
    [
        {"tokenizer.json": character_tokenizer(before="[BOS]"), "tokenizer_config.json": FAST},
        masked_tokenizer(),
        masked_tokenizer(eos_token="<eos>"),
    ],
    ids=["characters", "masked", "masked with <eos>"],
)
def test_a_tokenizer_of_the_library_is_asked(files: dict[str, object], tmp_path: Path) -> None:
    write_files(tmp_path, files)
    check(tmp_path)
    with pytest.raises(ConfigurationError, match="token ids differ from those of the model's own tokenizer"):
        check(tmp_path, shifted(read_tokens(tmp_path)))


def test_a_class_that_changes_the_special_tokens_is_found(tmp_path: Path) -> None:
    # The map says one thing and the class another: the class decides which tokens the model has seen.
    write_files(tmp_path, masked_tokenizer(eos_token="<eos>"))
    tokens = read_tokens(tmp_path)
    write_files(tmp_path, masked_tokenizer(eos_token=None))
    with pytest.raises(ConfigurationError, match="token ids differ"):
        check(tmp_path, tokens)


def test_a_tokenizer_that_is_code_of_the_model_does_not_run(tmp_path: Path) -> None:
    settings = {"tokenizer_class": "ByteTokenizer", "byte_level": True}
    settings["auto_map"] = {"AutoTokenizer": ["byte_code.ByteTokenizer", None]}
    write_files(tmp_path, {"tokenizer_config.json": settings, "byte_code.py": "raise SystemExit('it ran')"})
    check(tmp_path)


def test_a_tokenizer_that_fails_is_named(tmp_path: Path) -> None:
    write_files(tmp_path, masked_tokenizer())
    tokens = read_tokens(tmp_path)
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(ConfigurationError, match="own tokenizer does not work"):
        check(tmp_path, tokens)
