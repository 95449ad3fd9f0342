"""Default thresholds of variant shards, for catalogues, commands and builders."""

from __future__ import annotations

#: Smallest gnomAD allele frequency that is kept, 0 to 1.
MIN_AF = 0.01
#: Smallest AN that is kept, as a share (0 to 1) of the contig's largest AN.
MIN_AN_FRACTION = 0.5
#: Largest share (0 to 1) of alleles whose REF differs from the genome or exceeds the contig; a shard above it fails.
MAX_REF_MISMATCH_FRACTION = 0.001
