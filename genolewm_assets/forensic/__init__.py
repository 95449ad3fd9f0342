"""Electropherograms of forensic DNA profiles, without the edge: what a profile is, and how profiles are kept and read.

Belongs here: pre-processed profiles, their cache, and what turns the traces of a run into profiles: sizing, panels,
allelic ladders, annotations, the data set that a trainer opens. Does not belong here: finding and fetching files
(``sources``), arrays on disk, checksums and locks (``store``), the asset graph (``defs``). Imports neither Dagster nor
pysam.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
