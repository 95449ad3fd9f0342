"""Artefacts of a root: manifests, locations, builds, rejected builds, verification, garbage collection.

Does not belong here: files without manifests (``files``), locks (``locks``), contents (``arrays``, ``tables``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
