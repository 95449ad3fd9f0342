"""List ClinVar releases, register them under release keys, and build a variant shard from a ClinVar VCF.

Belongs here: ClinVar's file names, INFO fields and vocabularies, and the record of releases. Does not belong here: VCF
parsing (``vcf``), downloads (``files``), and comparison of two releases and table schemas (``variants``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
