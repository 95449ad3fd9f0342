"""Writing frozen epochs: the tuples of whole epochs with the states of both windows, continued after an interruption.

Belongs here: the writer and its checks. Does not belong here: the rows and their reader (``lewm.frozen``), what is
drawn (``lewm.training``), encoders (``encoders``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
