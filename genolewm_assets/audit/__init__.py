"""Audit of a split package by code that no filter uses: what of a holdout reaches training, and how sure that is.

A package is read as a stranger reads it: its files as docs/data_model.md describes them, and the reference FASTA. Of
the rest of the house only errors, progress and the trainer's dataset are used (contract in ``pyproject.toml``), so that
a mistake of a filter is not repeated here. Not here: filters (``holdouts``, ``package_build``,
``edits``) and the checks of a build, which know the filters' tables.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
