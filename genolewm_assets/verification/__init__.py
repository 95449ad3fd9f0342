"""A whole root beside what its readers open: ``genolewm verify``, the job ``verify_all``, and ``genolewm status``.

Does not belong here: manifests (``store.artefacts``), reading a record (the room that writes it), ``runtime.currency``.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
