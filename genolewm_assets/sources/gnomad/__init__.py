"""Build a variant shard from a gnomAD sites VCF: the layouts of its releases, its filters, its columns.

Not here: VCF parsing (``vcf``), normal forms and table schemas (``variants``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
