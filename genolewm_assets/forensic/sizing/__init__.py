"""Scans to base pairs: the size standard of a run found, matched and fitted.

Belongs here: size standards, the match of their fragments to peaks, local Southern sizing, residuals. Does not belong
here: peaks as such (``forensic.signal``), kits and ladders (``forensic.panels``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
