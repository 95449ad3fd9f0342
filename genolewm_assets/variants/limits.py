"""What a variant shard keeps and tolerates where nobody says otherwise: catalogues, commands and builders ask here."""

from __future__ import annotations

#: Smallest allele frequency of gnomAD that is kept, 0 to 1.
MIN_AF = 0.01
#: Smallest AN kept, as a share of the contig's largest.
MIN_AN_FRACTION = 0.5
#: Share of alleles that may not fit the genome.
MAX_REF_MISMATCH_FRACTION = 0.001
