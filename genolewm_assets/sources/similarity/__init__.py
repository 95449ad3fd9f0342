"""Compare sequences with held-out sequence, on both strands, whatever is said of where they come from.

Not here: which sequence is held out, and what is done with the result (``holdouts``); the audit's own search
(``audit.similarity``), which shares no code with this one.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
