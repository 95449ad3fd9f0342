"""Instrument files of genetic analysers in the ABIF format (``.hid``, ``.fsa``): bytes to tags, traces and run facts.

Does not belong here: what is computed from traces (``forensic.signal``), finding files in a run folder (``sources``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
