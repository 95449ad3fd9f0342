"""Allele tables, the same for every source: schema, normal form, order, counts, checks, changes between releases.

Not here: reading VCF files and what their fields mean (``sources``), holdouts (``holdouts``), chrM tracks (``mito``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
