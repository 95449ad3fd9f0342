"""Published releases of packages: their index, where they lie (the hub, or a store of any fsspec URL), and fetching.

Does not belong here: publishing (``publishing``, which no other room imports), opening what was fetched (``packages``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
