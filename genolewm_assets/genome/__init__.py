"""Values and arithmetic of genomes, shared by all packages; 0-based and 1-based coordinates are converted nowhere else.

Not here: files (``sources``, ``store``), tables and training data (``packages``, ``training``), Dagster (``defs``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
