"""The files that geno-lewm 0.2.1 opens, made from a package or a shard.

Belongs here: the columns of its tables and what they lose (``columns``), which rows of a package it may train on, and
its data folder. Does not belong here: auditing such a folder (``audit.reading``), the columns of RFC-0002 (``states``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
