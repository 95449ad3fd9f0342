"""The genome vocabulary that every other part shares: pure values and arithmetic.

Here: contigs, intervals (the only +-1 conversions), sequence codes, k-mers, windows, variants, edits, the names of
clinical classes and splits, keyed draws. Not here: files (``sources``, ``store``), tables and what is learnt from them
(``lewm``), anything Dagster (``defs``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
