"""Examine what a catalogue names, without a root and without building anything: ``genolewm catalog check``.

Not here: the readers of the formats (the other rooms of ``sources``), the catalogue's keys (``sources.catalog``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
