"""State encoders: compute block-pooled hidden states of windows with a DNA language model.

Not here: use of cached states (``states``), array storage (``store``), which windows are encoded (``defs``). Modules
that import ``torch`` or ``transformers`` are loaded at the first access to their classes.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
