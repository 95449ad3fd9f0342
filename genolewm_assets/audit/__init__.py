"""Audit of a split package by code that no filter uses: what of a holdout reaches training, and how sure that is.

A package is read as a stranger reads it, from its files and the FASTA (contract in ``pyproject.toml``), so that a
mistake of a filter is not repeated. Not here: filters (``holdouts``, ``package_build``, ``edits``), checks of a build.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
