"""Block states of edited windows from the tokens that an edit changes.

Not here: the model and its precision (``encoders.network``), tokens (``encoders.tokens``), pooling (``states``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
