"""A PyTorch data set of pre-processed profiles: instrument files and annotations in, images and masks out.

Belongs here: which files are samples, ladders and annotations (``strategies``), profiles on a grid of base pairs
(``scaling``, ``signals``), masks (``masks``), and the data set that reads them from the cache. Does not belong here:
reading an instrument file (``forensic.abif``), sizing, panels and calls (rooms of those names), the cache's files
(``forensic.memmap_writer``). Rows come from the cache; files are parsed only to build it.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
