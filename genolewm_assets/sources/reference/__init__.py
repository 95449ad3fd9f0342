"""Read and prepare the reference genome: FASTA files, their indexes, measured contigs, and BED tracks.

Not here: windows of the reference (``windows.reference``), downloads (``sources.files``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
