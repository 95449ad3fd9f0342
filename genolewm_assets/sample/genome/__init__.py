"""The simulated genome: contigs, repeats, genes and transcripts, and the random streams of the whole sample.

Not here: alleles (``sample.alleles``), mitochondrial genomes of individuals, the corpus (``sample.corpus``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
