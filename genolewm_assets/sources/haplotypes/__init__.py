"""Reader of phased genotypes, such as those of the 1000 Genomes Project, from a VCF with sample columns.

Not here: records and columns of a VCF (``vcf``), normal forms (``variants``), blocks of alleles (``holdouts``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
