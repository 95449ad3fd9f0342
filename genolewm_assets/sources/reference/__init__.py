"""Read and prepare the reference genome: FASTA files and BED tracks.

Belongs here: random access to FASTA, its indexes, measured contigs, merged BED intervals. Does not belong here: windows
of the reference (``windows.reference``), downloads (``sources.files``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
