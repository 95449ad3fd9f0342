"""Simulated alleles with population counts and clinical assertions, and their gnomAD-style and ClinVar-style VCF text.

Not here: sequences (``sample.genome``), calls of individual mitochondrial genomes (``sample.mito``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
