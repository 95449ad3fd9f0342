"""Length of a model's context in tokens, and the windows that fit into it."""

from __future__ import annotations

from genolewm_assets.encoders.model_files import ModelFiles, read_json_object
from genolewm_assets.encoders.tokens import DnaTokens
from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import PROFILES, TOKEN_BP
from genolewm_assets.states import BLOCK_TOKENS

#: Names of the context in configurations of several families.
_CONTEXT = ("max_position_embeddings", "n_positions", "max_seq_len", "max_seqlen")

#: Families whose first position is the one after the padding token's id; the positions before it are lost.
_PADDED_POSITIONS = frozenset({"esm", "roberta", "xlm-roberta", "camembert"})

_BLOCK_BP = BLOCK_TOKENS * TOKEN_BP


def context_tokens(files: ModelFiles) -> int | None:
    """Return the largest number of tokens of a model's input, special tokens included, that its files state."""
    config, tokenizer = files.config, files.folder / "tokenizer_config.json"
    positions = next((config[name] for name in _CONTEXT if name in config), None)
    rotary = config.get("position_embedding_type", "absolute") != "absolute"
    padding = config.get("pad_token_id")
    if config.get("model_type") in _PADDED_POSITIONS and not rotary and isinstance(padding, int):
        positions = positions - padding - 1 if isinstance(positions, int) else None
    longest = read_json_object(tokenizer).get("model_max_length") if tokenizer.is_file() else None
    return min((count for count in (positions, longest) if isinstance(count, int) and count > 0), default=None)


def longest_window_bp(files: ModelFiles, tokens: DnaTokens) -> int | None:
    """Return the length of the longest window that fits a model's context, whole 6-mers; None if it has no limit."""
    context = context_tokens(files)
    return None if context is None else max(0, context - tokens.n_special) * tokens.bp_per_token // TOKEN_BP * TOKEN_BP


def check_window_fits(files: ModelFiles, tokens: DnaTokens, window_bp: int) -> None:
    """Raise :class:`ConfigurationError` if windows of ``window_bp`` bases are longer than a model's context."""
    longest = longest_window_bp(files, tokens)
    if longest is None or window_bp // TOKEN_BP * TOKEN_BP <= longest:
        return
    fitting = [name for name, profile in PROFILES.items() if profile.window_bp <= longest]
    size = longest // _BLOCK_BP * _BLOCK_BP or longest
    stride = max(TOKEN_BP, size * 2 // 3 // TOKEN_BP * TOKEN_BP)
    if fitting:
        remedy = f"Use the window profile {' or '.join(fitting)}"
    elif size:
        remedy = (
            "No built-in window profile is short enough. Write one in the catalogue, such as "
            f"'windows: {{profile: bp{size}, window_bp: {size}, stride_bp: {stride}}}'"
        )
    else:
        remedy = "Use a model with a longer context"
    raise ConfigurationError(
        f"encoder {files.model_id}",
        "windows are longer than the model's context",
        expected=f"at most {longest:,} bp ({context_tokens(files):,} tokens of {tokens.bp_per_token} bp, "
        f"{tokens.n_special} of them special)",
        got=f"{window_bp:,} bp",
        remedy=remedy,
    )
