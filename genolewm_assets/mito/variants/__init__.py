"""Mitochondrial variants and heteroplasmy on the circular reference: normal form, joined table, levels per base.

Does not belong here: reading VCFs (``sources``), tokens (``mito.tokens``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
