"""The assets of the graph, one module per domain.

Here: which inputs an asset opens, which functions build and check its files, and what the UI shows of it. Not here: how
files are parsed, computed or checked (``sources``, ``packages``, ``mito``, ``variants``); conditions, gates
(``runtime``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
