"""Element-wise work of the layers of a Llama, each part one kernel; imports torch and transformers.

In bfloat16 on an H100 it takes two thirds of a forward pass, norms, position codes and activations above all. Products
and attention stay as they are, so that a token has the same bits in a window and in a packed row of edited windows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.functional import rms_norm
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, apply_rotary_pos_emb

from genolewm_assets.own_caches import own_cache

_Rotate = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
_Gate = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def fuse_layers(layers: Iterable[nn.Module], *, dtype: torch.dtype, backend: str) -> int:
    """Compile the element-wise work of those layers that are Llama's, in place, and return their number."""
    # Inductor executes what it keeps; by default that lies below the temporary folder, where others may be first.
    with suppress(OSError):
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(own_cache("inductor")))

    def rotated(
        query: torch.Tensor, key: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        query, key = apply_rotary_pos_emb(query, key, cos, sin)
        return query.to(dtype), key.to(dtype)

    rotate: _Rotate = torch.compile(rotated, backend=backend, dynamic=True)
    gates = dict[str, _Gate]()
    fused = [layer for layer in layers if type(layer) is LlamaDecoderLayer]
    for layer in fused:
        parts: Any = layer
        for norm in (parts.input_layernorm, parts.post_attention_layernorm):
            norm.forward = partial(_normalise, norm, dtype)
        parts.self_attn.forward = partial(_attend, parts.self_attn, rotate)
        kind = repr(parts.mlp.act_fn)
        if kind not in gates:
            gates[kind] = _compiled_gate(parts.mlp.act_fn, dtype, backend)
        parts.mlp.forward = partial(_feed_forward, parts.mlp, gates[kind])
    return len(fused)


def _compiled_gate(activation: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype, backend: str) -> _Gate:
    """Return a compiled product of an activation with another tensor, computed in float32."""

    def gated(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return (activation(gate.float()) * up.float()).to(dtype)

    compiled: _Gate = torch.compile(gated, backend=backend, dynamic=True)
    return compiled


def _normalise(norm: Any, dtype: torch.dtype, states: torch.Tensor) -> torch.Tensor:
    """Return the states of a layer, which are float32, as its norm gives them to matrix products."""
    return rms_norm(states, norm.weight.shape, norm.weight, norm.variance_epsilon).to(dtype)


def _attend(
    attention: Any,
    rotate: _Rotate,
    hidden_states: torch.Tensor,
    position_embeddings: tuple[torch.Tensor, torch.Tensor],
    attention_mask: torch.Tensor | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Do as ``LlamaAttention.forward`` without a cache; the function that attends is the one that the model names."""
    heads = (*hidden_states.shape[:-1], -1, attention.head_dim)
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    query, key, value = (project(hidden_states).view(heads).transpose(1, 2) for project in projections)
    query, key = rotate(query, key, *position_embeddings)
    attend = ALL_ATTENTION_FUNCTIONS[attention.config._attn_implementation]
    attended, _ = attend(attention, query, key, value, attention_mask, scaling=attention.scaling, **others)
    return attention.o_proj(attended.reshape(*hidden_states.shape[:-1], -1)), None


def _feed_forward(mlp: Any, gate: _Gate, states: torch.Tensor) -> torch.Tensor:
    """Do as ``LlamaMLP.forward``."""
    result: torch.Tensor = mlp.down_proj(gate(mlp.gate_proj(states), mlp.up_proj(states)))
    return result
