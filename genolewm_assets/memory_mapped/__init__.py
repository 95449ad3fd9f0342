"""The mapped form of a split: its windows and alleles as plain NumPy files, opened at once and shared by all processes.

Belongs here: names and types of the files, writing them beside a package's tables, reading them, and comparing them
with the tables. Does not belong here: tables of a package (``packages``), sampling (``training.sampler``), the order
of windows (``training.sampler``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
