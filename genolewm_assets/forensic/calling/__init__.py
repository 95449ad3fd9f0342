"""Alleles of a sample: peaks named by the bins of an adjusted panel, artefacts flagged.

STR profiles are personal data: what is made here prints counts, never alleles, sizes or heights. Does not belong here:
the panel and the ladder (``forensic.panels``), artefacts that need no panel (``forensic.signal``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
