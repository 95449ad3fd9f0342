"""Simulated mitochondrial genomes of individuals and their heteroplasmy, as FASTA, GenBank and VCF.

Not here: chrM itself (``sample.genome``), its population variants (``sample.alleles``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
