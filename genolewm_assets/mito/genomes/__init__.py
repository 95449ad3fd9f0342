"""Mitochondrial genomes: quality control, canonical rotation, alignment to the reference, haplogroup and split.

Does not belong here: reading files (``sources.mito``), variants (``mito.variants``), tokens (``mito.tokens``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
