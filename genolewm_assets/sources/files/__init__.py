"""Read files from local paths and URLs: downloads, byte ranges, published checksums, detection of compression.

Not here: file formats (sibling rooms such as ``vcf``) and the publication of artefacts (``store``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
