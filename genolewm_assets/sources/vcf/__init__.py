"""Read VCF files: BGZF, header, index, the records of one contig, blocks of records, an independent count.

Not here: what gnomAD and ClinVar mean by their INFO fields (``gnomad``, ``clinvar``), access to remote bytes
(``files``) and normal forms (``variants``).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
