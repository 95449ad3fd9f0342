"""The genome vocabulary that every other part shares: pure values and arithmetic.

Here: contigs, intervals (the only +-1 conversions), sequence codes, k-mers, windows, variants, edits, the names of
clinical classes and splits, keyed draws. Not here: files (``sources``, ``store``), tables and what is learnt from them
(``lewm``), anything Dagster (``defs``).
"""

from __future__ import annotations

from genolewm_assets.genome.clinical_classes import CLASSES, DECIDED, HARMFUL, Label
from genolewm_assets.genome.contigs import GRCH38, Contig, ContigSet, genome_digest, standard_aliases
from genolewm_assets.genome.draws import draw_bits
from genolewm_assets.genome.edits import (
    INSET_BP,
    EditedWindow,
    EditSpec,
    LengthPolicy,
    RelEdit,
    apply_edit,
    apply_edits,
    check_inset,
    invert_edit,
    is_inset,
    reverse_complement_edit,
    unapply_edits,
)
from genolewm_assets.genome.intervals import Interval, IntervalArray, pos_from_start, split_wrapping, start_from_pos
from genolewm_assets.genome.kmers import NO_KMER, decode_kmer, encode_kmers
from genolewm_assets.genome.linkage import connect
from genolewm_assets.genome.sequence import (
    AMBIGUOUS,
    Bases,
    Codes,
    acgt_runs,
    decode_sequence,
    encode_sequence,
    parts_around,
    reverse_complement,
)
from genolewm_assets.genome.splits import EVALUATION, Split
from genolewm_assets.genome.variants import EditType, Variant, decompose, left_align, normalise, trim_alleles
from genolewm_assets.genome.windows import (
    PROFILES,
    TOKEN_BP,
    WindowProfile,
    expected_covered_bases,
    expected_window_count,
    tile_windows,
)

__all__ = [
    "AMBIGUOUS",
    "CLASSES",
    "DECIDED",
    "EVALUATION",
    "GRCH38",
    "HARMFUL",
    "INSET_BP",
    "NO_KMER",
    "PROFILES",
    "TOKEN_BP",
    "Bases",
    "Codes",
    "Contig",
    "ContigSet",
    "EditSpec",
    "EditType",
    "EditedWindow",
    "Interval",
    "IntervalArray",
    "Label",
    "LengthPolicy",
    "RelEdit",
    "Split",
    "Variant",
    "WindowProfile",
    "acgt_runs",
    "apply_edit",
    "apply_edits",
    "check_inset",
    "connect",
    "decode_kmer",
    "decode_sequence",
    "decompose",
    "draw_bits",
    "encode_kmers",
    "encode_sequence",
    "expected_covered_bases",
    "expected_window_count",
    "genome_digest",
    "invert_edit",
    "is_inset",
    "left_align",
    "normalise",
    "parts_around",
    "pos_from_start",
    "reverse_complement",
    "reverse_complement_edit",
    "split_wrapping",
    "standard_aliases",
    "start_from_pos",
    "tile_windows",
    "trim_alleles",
    "unapply_edits",
]
