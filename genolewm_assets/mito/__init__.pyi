from .tokens import KmerVocabulary as KmerVocabulary
from .tokens import decode_tokens as decode_tokens
from .tokens import tokenize_batch as tokenize_batch
from .tokens import tokenize_sequence as tokenize_sequence
from .training import MaskingCollator as MaskingCollator
from .training import MaskingRules as MaskingRules
from .training import MtDNADataset as MtDNADataset
from .training import MtDNAVariantDataset as MtDNAVariantDataset
