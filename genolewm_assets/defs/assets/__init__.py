"""The assets of the graph, one module per domain: inputs, the functions that build and check files, what the UI shows.

Not here: how files are parsed, computed or checked (``sources``, ``packages``, ...); conditions, gates (``runtime``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
