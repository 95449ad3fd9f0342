"""Alleles of a sample: peaks named by the bins of an adjusted panel, artefacts flagged. Nothing prints an allele.

Does not belong here: panel and ladder (``forensic.panels``), artefacts that need no panel (``forensic.signal``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
