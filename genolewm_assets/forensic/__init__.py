"""Forensic DNA profiles: pre-processed electropherograms, and a cache that stores them.

Here: profiles, the cache writer and reader. In rooms of their own: instrument files (``abif``), traces as signals
(``signal``), base pairs (``sizing``), kits and ladders (``panels``), alleles (``calling``). Not here: finding and
fetching files (``sources``), arrays on disk, checksums and locks (``store``), the asset graph (``defs``). Imports
neither Dagster nor pysam. STR profiles are personal data: nothing here prints or logs an allele of a sample.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
