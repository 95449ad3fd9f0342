"""The vocabulary as a Hugging Face tokenizer: two JSON files that ``AutoTokenizer`` reads without this package.

Pieces of a text do not overlap for a tokenizer of the ``tokenizers`` library, but k-mers do. Its normaliser therefore
writes them out: it inserts a space before every base, and step n, for n from 1 to k - 1, appends to each group the
first base of the group n places ahead::

    ACGTA  ->   A C G T A  ->   AC CG GT TA A  ->   ACG CGT GTA

A word is a linear sequence; for a circular genome, append its first k - 1 bases to the text. This takes about 0.1 s per
genome; ``KmerVocabulary.encode_array`` takes 20 microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from genolewm_assets.store.files import JsonValue

TOKENIZER_FILE, TOKENIZER_CONFIG_FILE = "tokenizer.json", "tokenizer_config.json"

_LETTERS = "ACGTN"
_UNKNOWN = "[UNK]"


def tokenizer_files(tokens: Sequence[str], special: Sequence[str], k: int) -> dict[str, JsonValue]:
    """Return the contents of ``tokenizer.json`` and ``tokenizer_config.json``; ``tokens`` are in the order of ids."""
    ids: dict[str, JsonValue] = {token: number for number, token in enumerate(tokens)}
    added: list[JsonValue] = [
        {
            "id": ids[token],
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for token in special
    ]
    tokenizer: dict[str, JsonValue] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "Sequence", "normalizers": _spell_kmers(k)},
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": ids, "unk_token": _UNKNOWN},
    }
    named: dict[str, JsonValue] = {f"{_name(token)}_token": token for token in special if _name(token) != "het"}
    config: dict[str, JsonValue] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **named,
        "additional_special_tokens": ["[HET]"],
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
    }
    return {TOKENIZER_FILE: tokenizer, TOKENIZER_CONFIG_FILE: config}


def listed_tokens(tokenizer: Mapping[str, Any]) -> dict[str, object]:
    """Return the token ids of a parsed ``tokenizer.json``, by token; empty if it has no vocabulary."""
    model = tokenizer.get("model")
    listed = model.get("vocab") if isinstance(model, dict) else None
    return listed if isinstance(listed, dict) else {}


def _name(token: str) -> str:
    """Return the name of a special token: ``[PAD]`` gives ``pad``."""
    return token.strip("[]").lower()


def _spell_kmers(k: int) -> list[JsonValue]:
    """Return the replacements that turn every word into its k-mers, in the order in which they apply."""
    steps = [_replace(r"\s+", "\n")]
    steps += [_replace(small, large) for small, large in zip("acgtuU", "ACGTTT", strict=True)]
    steps += [_replace(r"[^ACGT\n]", "N"), _replace(rf"(?=[{_LETTERS}])", " ")]
    for size in range(1, k):
        ahead = rf"(?: [{_LETTERS}]+){{{size - 1}}}"
        steps += [_replace(rf"(?<= [{_LETTERS}]{{{size}}})(?={ahead} {base})", base) for base in _LETTERS]
    if k > 1:
        steps.append(_replace(rf"(?<= )[{_LETTERS}]{{1,{k - 1}}}(?=[ \n]|$)", ""))
    return steps


def _replace(pattern: str, content: str) -> JsonValue:
    """Return a normaliser that replaces every match of a regular expression."""
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}
