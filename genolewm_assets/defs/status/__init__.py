"""The page of the morning: releases, what is failed, late or waiting, what moved, sizes, hours, costs.

Not here: comparing a partition with its sources (``runtime.currency``), checking bytes (``store``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
