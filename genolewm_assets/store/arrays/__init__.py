"""Array stores: numeric arrays on disk with an index, side-cars and checksums, and their caches and exports.

Not here: publication (``store.artefacts``), tables (``store.tables``), locks (``store.locks``), what the rows mean.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
