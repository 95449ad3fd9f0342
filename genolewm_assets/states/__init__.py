"""Caches of encoder states: pooling of states, the index of window hashes, and export.

Belongs here: what a cached state means, and which window each row of a cache belongs to. Does not belong here: encoding
(``encoders``), the array store that holds the states (``store.arrays``), choosing blocks for training tuples
(``training``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
