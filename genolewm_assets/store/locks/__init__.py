"""Locks: one writer per location, the record that names the lock's owner, and tests whether a process still runs.

Does not belong here: which folder holds the lock of a location, and the work directories in it (``artefacts``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
