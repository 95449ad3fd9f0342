"""Training tuples and batches from a split package and cached encoder states.

Belongs here: reading a split, edit sampling, tuples, window schedules, batches and the PyTorch datasets. Does not
belong here: package files (``packages``), state caches and pooling (``states``), encoders (``encoders``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
