"""State encoders: from windows to block-pooled hidden states of a DNA language model.

Belongs here: Hugging Face causal language models behind one class, the DNA tokens of their vocabularies, the identity
that cache keys are made from, block means, the null-edit bound, and a tiny random model in the same format. Does not
belong here: what is done with cached states (``lewm.state_pooling``), how they are stored (``store``), which windows
are encoded and where the results go (``defs``).

``torch`` and ``transformers`` are imported by ``encoders.causal_lm`` alone, when ``CausalLMStateEncoder`` is first
asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from genolewm_assets.encoders.identity import EncoderIdentity, StateDtype, StateEncoder, read_identity
from genolewm_assets.encoders.model_files import ModelFiles, locate_model
from genolewm_assets.encoders.state_checks import NULL_EDIT_BOUND, null_edit_ratio
from genolewm_assets.encoders.tiny_llama import TINY_LLAMA, write_tiny_llama
from genolewm_assets.encoders.tokens import DnaTokens
from genolewm_assets.lewm.states.pooling import (
    BLOCK_TOKENS,
    RADIUS_TOKENS,
    block_count,
    block_means,
    global_mean,
    locus_blocks,
    pool_blocks,
)

if TYPE_CHECKING:
    from genolewm_assets.encoders.causal_lm import CausalLMStateEncoder

__all__ = [
    "BLOCK_TOKENS",
    "NULL_EDIT_BOUND",
    "RADIUS_TOKENS",
    "TINY_LLAMA",
    "CausalLMStateEncoder",
    "DnaTokens",
    "EncoderIdentity",
    "ModelFiles",
    "StateDtype",
    "StateEncoder",
    "block_count",
    "block_means",
    "global_mean",
    "locate_model",
    "locus_blocks",
    "null_edit_ratio",
    "pool_blocks",
    "read_identity",
    "write_tiny_llama",
]


def __getattr__(name: str) -> object:
    """Load the encoder, and with it torch, on first use (PEP 562)."""
    if name == "CausalLMStateEncoder":
        from genolewm_assets.encoders.causal_lm import CausalLMStateEncoder

        return CausalLMStateEncoder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
