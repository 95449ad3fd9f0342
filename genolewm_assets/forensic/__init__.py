"""Forensic DNA profiles: pre-processed electropherograms, and a cache that stores them.

Here: profiles, the cache writer and reader, and the conversion of a run's traces to profiles (sizing, panels, allelic
ladders, annotations, data set for trainers). Not here: finding and fetching files (``sources``), arrays on disk,
checksums and locks (``store``), the asset graph (``defs``). Imports neither Dagster nor pysam.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
