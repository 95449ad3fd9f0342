"""What this machine keeps for one user between processes, and believes: in folders that nobody else can write.

Does not belong here: what is kept (``packages.verified``), caches that are data (``store.arrays``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
