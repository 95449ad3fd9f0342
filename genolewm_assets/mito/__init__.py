"""Mitochondrial genomes as arrays that a model trains on: circular, heteroplasmic, tokenised by k-mers.

Belongs here: genomes laid along the reference circle, their split, variants and heteroplasmy; vocabulary, tokens,
windows, data sets, masking. Does not belong here: finding and fetching files (``sources``), arrays on disk (``store``),
k-mers as such (``genome``), the asset graph (``defs``). Imports neither Dagster nor pysam; torch only with the data
sets.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
