"""Publishing a package, and the commands that publish and fetch: what is sent, to the hub or to a store.

No asset, sensor or job can publish: of all rooms only the commands import this one. Does not belong here: what readers
of a release need (``releases``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
