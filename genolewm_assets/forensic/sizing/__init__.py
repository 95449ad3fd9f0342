"""Scans to base pairs: the size standard of a run found, matched and fitted, by local Southern sizing.

Does not belong here: peaks as such (``forensic.signal``), kits and ladders (``forensic.panels``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
