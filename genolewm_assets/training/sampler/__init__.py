"""Random edits of windows in compiled loops over arrays: order of visits, draws, edits and tokens of a batch at a time.

Belongs here: tables of windows and drawn edits as arrays, and the kernels that read and write them. The rules are those
of ``edits``. Does not belong here: windows and alleles by row (``edits``), how often windows are visited,
tuples and batches (``training``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
