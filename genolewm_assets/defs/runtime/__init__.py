"""Building blocks that all assets share: declarations, gates, partitions, automation conditions, workspace, run log.

Not here: single assets (``assets``), jobs (``operations``), UI metadata (``display``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
