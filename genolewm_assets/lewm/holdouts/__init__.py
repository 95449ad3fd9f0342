"""Holdouts: the intervals, alleles and corpus windows that training must not see, each with its reason.

Belongs here: the policy that a user sets, gene components, haplotype blocks, building and checking the three holdout
tables, and the index that answers whether a window, allele or corpus window is held out. Does not belong here: dividing
rows into the splits of a package (``package_build``); comparison of sequences, since only placement is used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
