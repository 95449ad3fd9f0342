"""A tiny Llama model with random weights, in Hugging Face format: the encoder of the sample catalogue.

It has learnt no biology, and its card says so. The files are written from the raw integers of a NumPy generator, which
do not change between versions, so that every machine writes the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from genolewm_assets.encoders.tokens import CLOSE_TAG, N_KMERS, OOV, OPEN_TAG, TAGS
from genolewm_assets.genome import TOKEN_BP, decode_kmer
from genolewm_assets.store.files import write_atomic

#: Name of the sample encoder: folder name and model id.
TINY_LLAMA = "tiny-llama-random"

_SEED = 20_260_521
_HIDDEN, _LAYERS, _HEADS, _INNER, _CONTEXT = 64, 2, 4, 128, 8_192
_PAD = "<pad>"


def write_tiny_llama(folder: Path) -> None:
    """Write the sample encoder: hidden size 64, 2 layers, 4 heads, a vocabulary of 6-mers and tags.

    Files that already have the right content are not written; each other file is written atomically.
    """
    tokens = [_PAD, *TAGS, *(decode_kmer(index, TOKEN_BP) for index in range(N_KMERS))]
    vocab = {token: ident for ident, token in enumerate(tokens)}
    write_model(
        folder,
        name=TINY_LLAMA,
        vocab_size=len(tokens),
        tokenizer=_kmer_tokenizer(vocab),
        extra={
            "tokenizer_config.json": {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "pad_token": _PAD,
                "unk_token": OOV,
                "model_max_length": _CONTEXT,
            }
        },
    )


def write_model(
    folder: Path, *, name: str, vocab_size: int, tokenizer: Mapping[str, object], extra: Mapping[str, object]
) -> None:
    """Write a model of this architecture for a given vocabulary; files with the right content are not written."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"config.json": _config(vocab_size), "tokenizer.json": tokenizer, **extra}
    files = {
        file: (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode() for file, value in settings.items()
    }
    files["model.safetensors"] = save(_weights(vocab_size), metadata={"format": "pt"})
    files["README.md"] = _card(name).encode()
    for file, data in files.items():
        path = folder / file
        if not path.is_file() or path.read_bytes() != data:
            write_atomic(path, data)


def _config(vocab_size: int) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocab_size,
        "hidden_size": _HIDDEN,
        "intermediate_size": _INNER,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _HEADS,
        "max_position_embeddings": _CONTEXT,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
        "dtype": "float32",
    }


def _weights(vocab_size: int) -> dict[str, NDArray[np.float32]]:
    """Return all tensors by name, scaled so that the magnitude of states stays near 1 through the layers."""
    shapes = {"model.embed_tokens.weight": (vocab_size, _HIDDEN)}
    for layer in range(_LAYERS):
        prefix = f"model.layers.{layer}"
        shapes |= {f"{prefix}.self_attn.{part}_proj.weight": (_HIDDEN, _HIDDEN) for part in "qkvo"}
        shapes |= {f"{prefix}.mlp.{part}_proj.weight": (_INNER, _HIDDEN) for part in ("gate", "up")}
        shapes[f"{prefix}.mlp.down_proj.weight"] = (_HIDDEN, _INNER)
    bits = np.random.PCG64(_SEED)
    tensors = {}
    for name, shape in shapes.items():
        deviation = 1.0 if "embed" in name else shape[1] ** -0.5
        tensors[name] = (_unit_draws(bits, shape) * deviation).astype(np.float32)
    norms = ("input_layernorm", "post_attention_layernorm")
    for name in [f"model.layers.{layer}.{norm}" for layer in range(_LAYERS) for norm in norms] + ["model.norm"]:
        tensors[f"{name}.weight"] = np.ones(_HIDDEN, dtype=np.float32)
    return tensors


def _unit_draws(bits: np.random.PCG64, shape: tuple[int, int]) -> NDArray[np.float64]:
    """Draw uniform values of mean 0 and variance 1, by operations that IEEE 754, unlike NumPy, defines exactly."""
    raw = np.asarray(bits.random_raw(shape[0] * shape[1]), dtype=np.uint64)
    uniform = (raw >> np.uint64(11)).astype(np.float64) * 2.0**-53
    draws: NDArray[np.float64] = ((uniform - 0.5) * np.sqrt(12.0)).reshape(shape)
    return draws


def _kmer_tokenizer(vocab: Mapping[str, int]) -> dict[str, object]:
    """Return ``tokenizer.json`` of a tokenizer for non-overlapping 6-mers; other 6-mers become ``<oov>``."""
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    tokenizer = wrap_vocabulary({"type": "WordLevel", "vocab": dict(vocab), "unk_token": OOV})
    tokenizer["added_tokens"] = [
        {"id": vocab[token], "content": token, **special} for token in (_PAD, OPEN_TAG, CLOSE_TAG, OOV)
    ]
    tokenizer["pre_tokenizer"] = {
        "type": "Split",
        "pattern": {"Regex": f".{{{TOKEN_BP}}}"},
        "behavior": "Isolated",
        "invert": False,
    }
    return tokenizer


def wrap_vocabulary(model: Mapping[str, object]) -> dict[str, object]:
    """Wrap a vocabulary model in the ``tokenizer.json`` format of the ``tokenizers`` library."""
    absent = dict.fromkeys(("truncation", "padding", "normalizer", "pre_tokenizer", "post_processor", "decoder"))
    return {"version": "1.0", **absent, "added_tokens": [], "model": dict(model)}


def _card(name: str) -> str:
    return f"""---
library_name: transformers
license: apache-2.0
tags:
- dna
---
# {name}

**The weights of this model are random.** They were drawn from a fixed seed and never trained: its states carry no
biology, and nothing learnt from them means anything. It exists so that the data pipeline can be run, tested and shown
on a small machine with the code that loads real DNA language models.

Llama architecture: hidden size {_HIDDEN}, {_LAYERS} layers, {_HEADS} heads, {_CONTEXT:,} tokens of context, float32.
Input: `{OPEN_TAG}`, non-overlapping 6-mers, `{CLOSE_TAG}`; a 6-mer with a base other than A, C, G and T is `{OOV}`.
"""
