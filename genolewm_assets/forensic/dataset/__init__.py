"""Profiles of instrument files on a grid, and a PyTorch data set of them: images, masks and the cache of a folder.

Does not belong here: the instrument file (``forensic.abif``), sizing, panels and calls (rooms of those names), the
cache's files (``forensic.profile``), run folders (``forensic.runs``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
