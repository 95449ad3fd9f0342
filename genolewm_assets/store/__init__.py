"""Crash-safe files: atomic publication, manifests, builds, checked reading, verification, garbage collection.

Belongs here: how files are written so that a crash leaves no partial result, and how readers verify them. The code
knows files, digests and recipes, but no biology and no orchestrator. Does not belong here: VCF, FASTA and other formats
of genomics, and downloads (``sources``); the declarations and checks of particular tables (``variants``, ``packages``,
``mito``); the asset graph (``defs``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
