"""Crash-safe files: atomic publication, manifests, builds, checked reading, verification, garbage collection.

The code knows files, digests and recipes, but no biology and no orchestrator. Does not belong here: formats of genomics
and downloads (``sources``), the declarations and checks of particular tables, the asset graph (``defs``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
