"""Files that survive a crash: atomic writes, plain reads, generations behind a link, canonical JSON."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
