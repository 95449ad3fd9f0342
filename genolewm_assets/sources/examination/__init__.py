"""Examine what a catalogue names, without a root and without building anything: ``genolewm catalog check``.

Belongs here: which places a catalogue names, and how much of each is looked at. Does not belong here: the readers of
the formats (the other rooms of ``sources``), the keys of the catalogue (``sources.catalog``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
