"""State encoders: from windows to block-pooled hidden states of a DNA language model.

Belongs here: Hugging Face causal language models behind one class, the DNA tokens of their vocabularies, the identity
that cache keys are made from, block means, the null-edit bound, and a tiny random model in the same format. Does not
belong here: what is done with cached states (``lewm.state_pooling``), how they are stored (``store``), which windows
are encoded and where the results go (``defs``).

``torch`` and ``transformers`` are imported by ``encoders.causal_lm`` alone, when ``CausalLMStateEncoder`` is first
asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
