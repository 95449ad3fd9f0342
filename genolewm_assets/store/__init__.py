"""Crash-safe files: atomic publication, manifests, builds, checked reading, verification, garbage collection.

Belongs here: whatever decides how bytes get to disk whole and how readers know that they are. Knows files, digests and
recipes, no biology and no orchestrator. Does not belong here: file formats of the field and downloads (``sources``),
the tables and their content checks (``lewm``, ``mito``), the asset graph (``defs``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
