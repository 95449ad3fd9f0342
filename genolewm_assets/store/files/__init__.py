"""Single files and directories that survive a crash: atomic writes, generations behind a symlink, canonical JSON.

Does not belong here: locks (``locks``), manifests and roots (``artefacts``), tables, array stores.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
