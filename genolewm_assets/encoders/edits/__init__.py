"""Block states of edited windows from the tokens that an edit changes.

Here: packed rows of reference windows and tails of edited windows, their attention in a model of transformers, and the
proof that a model can be computed so. Not here: the model and its precision (``encoders.network``), tokens and stored
dtypes (``encoders``), pooling (``states``). ``packed_attention`` and ``prefixes`` import ``torch``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
