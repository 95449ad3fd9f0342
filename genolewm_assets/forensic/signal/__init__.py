"""Traces as signals: baseline, peaks, saturation and pull-up between dyes.

Belongs here: what can be said of a trace without knowing the size standard or the kit. Does not belong here: the file
that a trace came from (``forensic.abif``), base pairs (``forensic.sizing``), alleles (``forensic.calling``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
