"""The sample: a small simulated genome with gnomAD-style, ClinVar-style, corpus and mitochondrial files.

Here: the simulation, the writers of its files in the layouts of the public servers, and counts of the content. Not
here: readers of such files (``sources``), fixtures of a single test (the tests), real sequences or variants (nowhere in
this repository). This package imports ``genome``, ``progress`` and ``store`` but never ``sources``, so that readers are
tested on files written by independent code.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
