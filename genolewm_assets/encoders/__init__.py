"""State encoders: compute block-pooled hidden states of windows with a DNA language model.

Here: the encoder class for Hugging Face language models, their DNA tokens and context, the encoder identity used in
cache keys, the cache of states and its checks, and a tiny random model. Not here: use of cached states
(``states``), array storage (``store``), which windows are encoded (``defs``). Only ``causal_lm``,
``causal_lm_loss``, ``batches``, ``network``, ``model_loading``, ``model_tokenizer`` and ``throughput`` import ``torch``
and ``transformers``; they are loaded at the first access to their classes.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
