"""Forensic DNA profiles: pre-processed electropherograms, and a cache that stores them.

Not here: finding and fetching files (``sources``), arrays on disk, checksums and locks (``store``), the asset graph
(``defs``). STR profiles are personal data: nothing here prints or logs an allele of a sample.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
