"""Run folders of instrument files on disk: which there are, what is in them, and whether one is complete.

Not here: what the files hold and what is made of them (``forensic``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
