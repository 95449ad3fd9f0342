"""Data pipeline of the genomic world model (LeWM), from checked tables to the datasets that a trainer opens.

Belongs here: window index, corpus windows, holdouts, caches of encoder states, split packages, edit sampling, training
tuples and datasets, with table schemas and independent checks. Does not belong here: formats of other projects and
downloads (``sources``), allele tables (``variants``), models (``encoders``), crash-safe files and manifests
(``store``), sequence arithmetic (``genome``), the asset graph (``defs``). Imports neither Dagster nor pysam; torch only
with the datasets.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
