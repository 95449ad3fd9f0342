"""Check of a root that two machines mount: whether each sees, and waits for, what the other does.

Does not belong here: what one machine alone can test (``artefacts.probe``), the locks themselves (``locks``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
