"""Held-out alleles with the reference around them, by which training recognises them without a place.

Not here: the rule of training that uses them (``edits``), the check of the table (``genolewm_assets.audit``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import Bases
from genolewm_assets.packages import CONTEXT_BP, PACKAGE_CONTEXTS
from genolewm_assets.variants import ALLELE_KEY, allele_spans

#: Alleles per table.
_ROWS = 65_536


def context_tables(alleles: pa.Table, reference: Callable[[str], Bases]) -> Iterator[pa.Table]:
    """Yield tables of schema ``PACKAGE_CONTEXTS``, sorted by allele."""
    different = alleles.select(ALLELE_KEY).group_by(list(ALLELE_KEY)).aggregate([])
    ordered = different.sort_by([(name, "ascending") for name in ALLELE_KEY])
    for contig in pc.unique(ordered["chrom"]).to_pylist():
        bases, ours = reference(contig), ordered.filter(pc.equal(ordered["chrom"], contig))
        for first in range(0, ours.num_rows, _ROWS):
            rows = ours.slice(first, _ROWS)
            starts, ends = (bounds.tolist() for bounds in allele_spans(rows))
            left = [bases[max(0, start - CONTEXT_BP) : start].decode("ascii") for start in starts]
            right = [bases[end : end + CONTEXT_BP].decode("ascii") for end in ends]
            columns = [*(rows[name] for name in ALLELE_KEY), pa.array(left), pa.array(right)]
            yield pa.table(columns, schema=PACKAGE_CONTEXTS.arrow)
