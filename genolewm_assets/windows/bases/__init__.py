"""Bases of the windows of a table as a mapped array, four a byte, and arrays in NumPy's file format in general.

Belongs here: packing texts, the file ``bases.npy`` beside a table of windows, its check. Does not belong here: tables
of windows (``windows.reference``, ``windows.corpus``), the other arrays of a package (``memory_mapped``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
