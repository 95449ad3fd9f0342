"""Mitochondrial genomes as arrays that a model trains on: circular, heteroplasmic, tokenised by k-mers.

Belongs here: genomes laid along the reference circle, their split, variants and heteroplasmy; vocabulary, tokens,
windows, data sets, masking. Does not belong here: finding and fetching files (``sources``), arrays on disk (``store``),
k-mers as such (``genome``), the asset graph (``defs``). Imports neither Dagster nor pysam; torch only with the data
sets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from genolewm_assets.mito.tokens.tokenize import decode_tokens, tokenize_batch, tokenize_sequence
from genolewm_assets.mito.tokens.vocabulary import KmerVocabulary
from genolewm_assets.mito.training.masking import MaskingCollator, MaskingRules

if TYPE_CHECKING:
    from genolewm_assets.mito.training.dataset import MtDNADataset
    from genolewm_assets.mito.training.variant_dataset import MtDNAVariantDataset

__all__ = [
    "KmerVocabulary",
    "MaskingCollator",
    "MaskingRules",
    "MtDNADataset",
    "MtDNAVariantDataset",
    "decode_tokens",
    "tokenize_batch",
    "tokenize_sequence",
]


def __getattr__(name: str) -> object:
    """Load the data sets, and with them torch, on first use (PEP 562)."""
    if name == "MtDNADataset":
        from genolewm_assets.mito.training.dataset import MtDNADataset

        return MtDNADataset
    if name == "MtDNAVariantDataset":
        from genolewm_assets.mito.training.variant_dataset import MtDNAVariantDataset

        return MtDNAVariantDataset
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
