"""Artefacts of a root: build, publish, open and verify them, and remove superseded ones.

Belongs here: roots, locations, manifests, rejected builds, work directories, garbage collection. Does not belong here:
file-system operations without manifests (``files``), locks (``locks``), the content of array stores (``arrays``) and of
tables (``tables``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
