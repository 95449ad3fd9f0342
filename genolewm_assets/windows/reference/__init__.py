"""Tile contigs into reference windows, describe each window, and check the table.

Belongs here: the window index and its schemas. Does not belong here: windows of corpus records
(``windows.corpus``), the tiling arithmetic (``genome``), reading FASTA and BED files (``sources.reference``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
