"""PyTorch datasets of mitochondrial genomes: windows, items, masking, positional encoding.

Does not belong here: tokens and their store (``mito.tokens``), genomes (``mito.genomes``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
