"""The data pipeline of the genomic world model, without the edge: tables in, tables, checks and tuples out.

Belongs here: table schemas, the window index, corpus windows, holdouts, split packages, edit sampling, tuples and the
datasets that a trainer opens; checks of tables by code that does not share the builders'. Does not belong here: outside
formats and downloads (``sources``), models (``encoders``), crash-safe files and manifests (``store``), sequence
arithmetic (``genome``), the asset graph (``defs``). Imports neither Dagster nor pysam; torch only with the datasets.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
