"""Tiny models of random weights whose vocabularies are not tagged 6-mers, written by ``transformers``."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from genolewm_assets_tests.late import Late

transformers = Late("transformers")
torch = Late("torch")

#: Tokens of context; a window of ``package_world`` has 1,200 bases.
CONTEXT = 1_300

_SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}

#: Special tokens and bases of a character vocabulary, in the order of HyenaDNA's.
CHARACTERS = ["[CLS]", "[SEP]", "[BOS]", "[MASK]", "[PAD]", "[RESERVED]", "[UNK]", *"ACGTN"]

#: Vocabulary of the Nucleotide Transformer: special tokens, 6-mers, single letters.
SIX_MERS = ["".join(bases) for bases in itertools.product("ATCG", repeat=6)]
MASKED = ["<unk>", "<pad>", "<mask>", "<cls>", *SIX_MERS, *"ATCGN", "<eos>", "<bos>"]


def character_tokenizer(
    *, before: str | None = None, after: str | None = "[SEP]", tokens: list[str] = CHARACTERS
) -> dict[str, Any]:
    """Return a ``tokenizer.json`` with one token per base, and the special tokens that it adds."""
    place = {token: ident for ident, token in enumerate(tokens)}
    special = [token for token in (before, after) if token]
    single = [{"Sequence": {"id": "A", "type_id": 0}}]
    if before:
        single.insert(0, {"SpecialToken": {"id": before, "type_id": 0}})
    if after:
        single.append({"SpecialToken": {"id": after, "type_id": 0}})
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": ident, "content": token, "special": True, **flags}
            for token, ident in place.items()
            if token.startswith("[")
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": False},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {token: {"id": token, "ids": [place[token]], "tokens": [token]} for token in special},
        },
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": place, "unk_token": "[UNK]"},
    }


def write_files(folder: Path, files: Mapping[str, object]) -> Path:
    """Write tokenizer files: text as it is, other values as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name).write_text(value if isinstance(value, str) else json.dumps(value))
    return folder


def save_random(folder: Path, model: Callable[[], Any], *, seed: int = 5, scale: int = 8) -> None:
    """Write a model of random weights, scaled: a small network with the initial ones hardly tells two tokens apart."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = model()
        with torch.no_grad():
            for tensor in made.parameters():
                if tensor.ndim > 1:
                    tensor.mul_(scale)
        made.save_pretrained(folder)


def write_character_model(folder: Path) -> None:
    """Write a causal model of single bases: Llama architecture, characters and [SEP] of a ``tokenizer.json``."""
    config = transformers.LlamaConfig(vocab_size=16, max_position_embeddings=CONTEXT, **_SIZES)
    save_random(folder, lambda: transformers.LlamaForCausalLM(config))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    write_files(folder, {"tokenizer.json": character_tokenizer(), "tokenizer_config.json": settings})


def write_byte_model(folder: Path) -> None:
    """Write a causal model of single bases: GPT-NeoX architecture, ids that are ASCII codes, no special token."""
    config = transformers.GPTNeoXConfig(vocab_size=512, max_position_embeddings=CONTEXT, **_SIZES)
    save_random(folder, lambda: transformers.GPTNeoXForCausalLM(config))
    settings = {"tokenizer_class": "ByteTokenizer", "byte_level": True}
    write_files(folder, {"tokenizer_config.json": settings, "special_tokens_map.json": {}})


def write_masked_model(folder: Path) -> None:
    """Write a masked model of 6-mers: ESM architecture, ``vocab.txt`` of ``EsmTokenizer``, ``<cls>`` in front."""
    own = {"pad_token_id": 1, "mask_token_id": 2, "token_dropout": True, "position_embedding_type": "absolute"}
    config = transformers.EsmConfig(vocab_size=len(MASKED) - 2, max_position_embeddings=CONTEXT, **own, **_SIZES)
    save_random(folder, lambda: transformers.EsmForMaskedLM(config))
    write_files(folder, masked_tokenizer())


def masked_tokenizer(**settings: object) -> dict[str, object]:
    """Return the tokenizer files of a masked 6-mer model."""
    special = {f"{name}_token": f"<{name}>" for name in ("cls", "mask", "pad", "unk")}
    return {
        "vocab.txt": "\n".join(MASKED) + "\n",
        "special_tokens_map.json": special,
        "tokenizer_config.json": {"tokenizer_class": "EsmTokenizer", "eos_token": None, "model_max_length": 1_000}
        | settings,
    }


#: How each kind of model is written.
WRITERS = {"characters": write_character_model, "bytes": write_byte_model, "masked": write_masked_model}
