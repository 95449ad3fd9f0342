"""Holdouts: the intervals, alleles and corpus windows that training must not see, each with its reason.

Belongs here: the policy that a user sets, gene components, haplotype blocks, building and checking the five holdout
tables, and the index that answers whether a window, allele or corpus window is held out. Does not belong here: dividing
rows into the splits of a package (``package_build``); the search for similar sequence (``sources.similarity``), whose
result is listed here.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
