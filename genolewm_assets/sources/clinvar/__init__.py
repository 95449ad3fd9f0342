"""List ClinVar releases, register them under release keys, and build a variant shard from a ClinVar VCF.

Not here: VCF parsing (``vcf``), downloads (``files``), comparison of two releases and table schemas (``variants``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
