"""A whole root beside what its readers open: ``genolewm verify``, the job ``verify_all``, and ``genolewm status``.

Belongs here: the list of the small records that readers follow and no manifest lists, and the findings of a root put
together. Does not belong here: comparing an artefact with its manifest (``store.artefacts``), reading a record (the
room that writes it), comparing with sources (``defs.runtime.currency``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
