"""Traces as signals: baseline, peaks, saturation and pull-up between dyes.

Does not belong here: what needs the size standard (``forensic.sizing``) or the kit (``forensic.calling``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
