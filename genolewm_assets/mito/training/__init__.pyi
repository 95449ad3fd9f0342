from .dataset import MtDNADataset as MtDNADataset
from .masking import MaskingCollator as MaskingCollator
from .masking import MaskingRules as MaskingRules
from .variant_dataset import MtDNAVariantDataset as MtDNAVariantDataset
