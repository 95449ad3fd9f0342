"""Readers of mitochondrial genome collections (FASTA, GenBank) and of heteroplasmy VCFs.

Does not belong here: quality control and alignment (``mito.genomes``), levels per base (``mito.variants``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
