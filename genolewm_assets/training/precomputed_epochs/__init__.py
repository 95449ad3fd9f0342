"""Frozen epochs: the tuples of whole epochs with the states of both windows, in an array store.

Belongs here: the rows of the store, what identifies it, and reading it. Does not belong here: writing and checking it
(``training``), the order of batches (``training``), array stores of any kind (``store.arrays``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
