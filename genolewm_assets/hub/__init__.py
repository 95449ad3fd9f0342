"""Repositories of the Hugging Face hub at a commit: their files, fetched by the hub's own client into its own cache.

Not here: what files are for (``sources.corpus``, ``encoders``), files of other servers (``sources.files``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
