r"""The vocabulary as a Hugging Face tokenizer: two JSON files that ``AutoTokenizer`` reads without any code of ours.

A tokenizer of the ``tokenizers`` library cuts a text into pieces that do not overlap, and k-mers do. So its normaliser
first writes them out: a space goes before every base, then each group between spaces is lengthened, k - 1 times, by the
base that begins the group so many places ahead::

    ACGTA  ->   A C G T A  ->   AC CG GT TA A  ->   ACG CGT GTA

Groups that stay shorter than k at the end of a word are dropped: a word is a linear sequence. K-mers that are written
with white space in between are words of one k-mer each and stay what they are. For a circular genome append its first
k - 1 bases. A letter outside ACGT, and whatever else is no base, makes its k-mers [UNK].

This takes about a tenth of a second per genome; ``KmerVocabulary.encode_array`` takes 20 microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from genolewm_assets.store.files import JsonValue

TOKENIZER_FILE, TOKENIZER_CONFIG_FILE = "tokenizer.json", "tokenizer_config.json"

_LETTERS = "ACGTN"
_UNKNOWN = "[UNK]"


def tokenizer_files(tokens: Sequence[str], special: Sequence[str], k: int) -> dict[str, JsonValue]:
    """Return the contents of the files by name.

    Parameters
    ----------
    tokens
        Every token in the order of its id.
    special
        Those of them that are no k-mer, with their usual names in brackets.
    k
        Bases per k-mer.
    """
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
    """Return the ids by token that a ``tokenizer.json`` gives; empty if it holds no such list."""
    model = tokenizer.get("model")
    listed = model.get("vocab") if isinstance(model, dict) else None
    return listed if isinstance(listed, dict) else {}


def _name(token: str) -> str:
    return token.strip("[]").lower()


def _spell_kmers(k: int) -> list[JsonValue]:
    """Return the replacements that turn every word into its k-mers, in order."""
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
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}
