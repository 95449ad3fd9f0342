"""State encoders: compute block-pooled hidden states of windows with a DNA language model.

Here: the encoder class for Hugging Face causal language models, their DNA tokens, the encoder identity used in cache
keys, the cache of states and its checks, and a tiny random model. Not here: use of cached states (``lewm.states``),
array storage (``store``), which windows are encoded (``defs``). In this package only ``causal_lm`` imports ``torch``
and ``transformers``; it is loaded at the first access to ``CausalLMStateEncoder``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
