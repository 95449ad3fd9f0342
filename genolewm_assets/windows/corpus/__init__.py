"""Cut records of the pretraining corpus into windows, place the windows on the genome, and check both.

Belongs here: records as values, tiling, placement rules, tables and checks. Does not belong here: Parquet layouts of
the corpus, the aligner and access to FASTA (``sources.corpus``), reference windows (``windows.reference``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
