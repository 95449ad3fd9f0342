"""K-mer vocabulary, tokenisation of circular genomes, and the array store of tokens.

Does not belong here: windows and datasets (``mito.training``), alignment (``mito.genomes``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
