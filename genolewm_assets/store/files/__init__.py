"""Single files and directories that survive a crash: atomic writes, generations behind a symlink, canonical JSON.

Belongs here: file-system operations that know neither artefacts nor manifests. Does not belong here: locks (``locks``),
builds, manifests and roots (``artefacts``), tables (``tables``), array stores (``arrays``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
