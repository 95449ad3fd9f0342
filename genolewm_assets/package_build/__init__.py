"""Build a package: plan its rows, write its files and card, and check what was written.

Belongs here: dividing windows and alleles into splits, the rows of every table, ``README.md``, and the checks of a
written package. Does not belong here: the format of a package and everything that only reads one (``packages``), the
choice of held-out intervals and alleles (``holdouts``), publishing (``store``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
