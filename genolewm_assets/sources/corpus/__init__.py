"""Read the pretraining corpus, align its windows to the reference, and write the files of corpus windows.

Not here: tiling, placement rules and checks (``windows.corpus``), downloads (``sources.files``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
