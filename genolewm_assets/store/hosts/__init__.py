"""Check of a root that several machines mount: whether each sees, and waits for, what another one does.

Belongs here: the meeting of two runs of the check, what they try on each other, and the verdicts. Does not belong here:
what one machine alone can test (``artefacts.probe``), and the locks themselves (``locks``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
