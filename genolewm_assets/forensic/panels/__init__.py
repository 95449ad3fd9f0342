"""Kits: loci, bins and ladders as the makers' panel files define them, and the panel as a run's ladder shifts it.

No kit is known to the code. Does not belong here: alleles of samples (``forensic.calling``), ``forensic.sizing``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
