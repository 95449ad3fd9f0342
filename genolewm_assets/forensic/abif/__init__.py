"""Instrument files of genetic analysers in the ABIF format (``.hid``, ``.fsa``): bytes to tags, traces and run facts.

Belongs here: the directory of tags, plaintext or scrambled, the types of their values, which trace belongs to which
dye. Does not belong here: what is computed from traces (``forensic.signal``), sizes (``forensic.sizing``), alleles
(``forensic.calling``), finding files in a run folder (``sources``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
