"""Array stores: numeric arrays on disk with an index, side-cars and checksums, written row by row.

Here: layout, writer, reader, verification, reports and export of a store; a folder of stores by configuration (cache);
the index of rows by hash. Not here: manifests and publication (``store.artefacts``), tables (``store.tables``), locks
(``store.locks``), what the rows mean (``encoders``, ``forensic``, ``states``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
