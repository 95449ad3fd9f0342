"""The sample: a small simulated genome with gnomAD-style, ClinVar-style, corpus and mitochondrial files.

Not here: readers of such files (``sources``, which is never imported, so that readers are tested on files of
independent code), fixtures of a single test, real sequences or variants (nowhere in this repository).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
