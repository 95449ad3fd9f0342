"""Models of random weights to measure with, in Hugging Face format, with Carbon's kind of vocabulary."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Shape:
    """Shape of a Llama.

    Attributes
    ----------
    vocabulary
        Rows of the embedding; the last 4,107 ids are the DNA tokens.
    windows, edited
        Windows of 12,288 bp of one run, and windows of which eight edits are encoded.
    stored
        Windows of the cache that is written from end to end.
    frozen_bp, frozen_corpus
        Bases of the contig, and corpus windows, of the package of frozen epochs.
    matrix
        Rows and columns of the matrices whose product gives the machine's rate.
    copied_bytes
        Bytes that are copied to measure the machine's copy rate.
    """

    layers: int
    hidden: int
    inner: int
    heads: int
    vocabulary: int
    windows: int
    edited: int
    stored: int
    frozen_bp: int
    frozen_corpus: int
    matrix: int
    copied_bytes: int

    def window_flops(self, n_tokens: int) -> float:
        """Return the additions and multiplications of one window: weights once a token, causal attention by half."""
        weights = self.layers * (4 * self.hidden**2 + 3 * self.hidden * self.inner)
        return 2.0 * weights * n_tokens + 2.0 * self.layers * n_tokens**2 * self.hidden


#: ``carbon-500m`` has the size, width and vocabulary of Carbon-500M, 500 million parameters; ``smallest`` shows that
#: all parts run.
SHAPES = {
    "smallest": Shape(2, 64, 128, 2, 4_224, 4, 1, 8, 100_000, 12, matrix=256, copied_bytes=1 << 20),
    "tiny": Shape(6, 256, 768, 4, 4_224, 8, 4, 32, 200_000, 24, matrix=1_024, copied_bytes=1 << 28),
    "carbon-500m": Shape(
        25, 1_024, 3_072, 16, 155_776, 512, 64, 2_048, 800_000, 80, matrix=8_192, copied_bytes=1 << 32
    ),
}

_DNA_IDS = 4_107


def write_model(folder: Path, shape: Shape) -> None:
    """Write a model of random weights; a folder that is there stays."""
    import torch
    from safetensors.torch import save_file

    if folder.exists():
        return
    torch.manual_seed(0)
    sizes = {"embed_tokens": (shape.vocabulary, shape.hidden)}
    ones = ["norm"]
    for layer in range(shape.layers):
        name = f"layers.{layer}"
        sizes |= {f"{name}.self_attn.{part}_proj": (shape.hidden, shape.hidden) for part in "qkvo"}
        sizes |= {f"{name}.mlp.{part}_proj": (shape.inner, shape.hidden) for part in ("gate", "up")}
        sizes[f"{name}.mlp.down_proj"] = (shape.hidden, shape.inner)
        ones += [f"{name}.input_layernorm", f"{name}.post_attention_layernorm"]
    weights = {
        f"model.{name}.weight": (torch.randn(size) * (1.0 if "embed" in name else size[1] ** -0.5)).to(torch.bfloat16)
        for name, size in sizes.items()
    }
    weights |= {f"model.{name}.weight": torch.ones(shape.hidden, dtype=torch.bfloat16) for name in ones}
    unfinished = folder.with_suffix(".unfinished")
    unfinished.mkdir(parents=True, exist_ok=True)
    save_file(weights, unfinished / "model.safetensors", metadata={"format": "pt"})
    (unfinished / "config.json").write_text(json.dumps(_config(shape)))
    (unfinished / "dna_config.json").write_text(
        json.dumps({"k": 6, "dna_start_id": shape.vocabulary - _DNA_IDS, "dna_vocab_size": _DNA_IDS})
    )
    unfinished.rename(folder)


def _config(shape: Shape) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.inner,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "max_position_embeddings": 8_192,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "dtype": "bfloat16",
    }
