"""Mitochondrial genomes as training data: circular alignment, heteroplasmy, k-mer tokens and PyTorch datasets.

Does not belong here: reading and fetching files (``sources``), arrays on disk (``store``), k-mer arithmetic
(``genome``), the asset graph (``defs``). Imports neither Dagster nor pysam; only the datasets import torch.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
