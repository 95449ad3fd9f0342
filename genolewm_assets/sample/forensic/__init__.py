"""The simulated forensic run: an invented kit, its panel files, and the injections of one run as ABIF bytes.

Not here: readers of such files (``forensic``), real kits or profiles (nowhere in this repository).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
