"""The simulated miniature: a genome with its gnomAD-style and ClinVar-style sources, written on first use.

Belongs here: the simulation and its files in the public servers' layouts, and the facts known about them. Does not
belong here: reading such files (``sources``), fixtures of a single test (the tests), real sequence or real variants
(nowhere in this repository). Imports ``genome`` and ``store``, never ``sources``: readers are tested on files they had
no part in.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
