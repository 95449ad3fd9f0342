"""Tiny random models of other architectures with the sample encoder's vocabulary."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from genolewm_assets.encoders.tokens import N_KMERS
from genolewm_assets_tests.encoders.vocabularies.other_models import save_random
from genolewm_assets_tests.late import Late

transformers = Late("transformers")

_VOCABULARY = N_KMERS + 8
_SIZES = {"vocab_size": _VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}


def _config(kind: str) -> Any:
    sizes = {**_SIZES, "num_attention_heads": 4, "max_position_embeddings": 512}
    gpt2 = {"vocab_size": _VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512}
    dynamic = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
    made: dict[str, Callable[[], Any]] = {
        "grouped queries": lambda: transformers.LlamaConfig(**sizes, num_key_value_heads=2),
        "learned positions": lambda: transformers.GPT2Config(**gpt2),
        "neox": lambda: transformers.GPTNeoXConfig(**sizes),
        "bidirectional": lambda: transformers.BertConfig(**sizes),
        "sliding window": lambda: transformers.MistralConfig(**sizes, num_key_value_heads=4, sliding_window=16),
        "recurrent": lambda: transformers.MambaConfig(**_SIZES, state_size=4),
        "dynamic positions": lambda: transformers.LlamaConfig(**sizes, rope_parameters=dynamic),
    }
    return made[kind]()


def write_other_model(kind: str, tokenizer_folder: Path, folder: Path) -> Path:
    """Write a model of a kind named by what is special about it, and return its folder."""
    save_random(folder, lambda: transformers.AutoModel.from_config(_config(kind)), seed=3, scale=6)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer_folder / name, folder / name)
    return folder
