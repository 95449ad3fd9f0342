"""The windows of a split in memory, and the edits that are sampled for them.

Belongs here: window records, alleles by position, keyed random numbers, synthetic proposals, and the rules that decide
which edits a window may have. Does not belong here: order of windows (``training.sampler``), tuples and batches
(``training``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
