"""Values and arithmetic of genomes, shared by all other packages.

Here: contigs, intervals (the only conversions between 0-based and 1-based), sequence codes, k-mers, windows, variants,
edits, clinical classes, splits, keyed random draws. Not here: files (``sources``, ``store``), tables and training data
(``packages``, ``training``), Dagster code (``defs``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
