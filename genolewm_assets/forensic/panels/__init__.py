"""Kits: loci, bins and ladders as the makers' panel files define them, and the panel as a run's ladder shifts it.

Belongs here: the panel files of GeneMapper, OSIRIS and GeneMarker, the allelic ladder of a run. No kit is known to the
code. Does not belong here: alleles of samples (``forensic.calling``), size standards (``forensic.sizing``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
