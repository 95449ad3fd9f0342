"""Which alleles have enough genotypes: AN beside the most that the assays of a file have.

Not here: reading AN (``scan``).
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import Contig
from genolewm_assets.sources.gnomad.layouts import MAIN, GnomadLayout

#: About half of the samples have a chrY, and one of it.
_SHARE_OF_Y = 0.25

#: The largest AN of a contig, by contig and INFO field, filtered records included.
LargestAn = Mapping[tuple[str, str], int]


def have_low_an(
    batch: pa.RecordBatch, contig: Contig, layout: GnomadLayout, largest: LargestAn, fraction: float
) -> pa.BooleanArray:
    """Return whether each allele of a contig has too few genotypes; False for an allele without an AN.

    ``fraction``: smallest AN, 0 to 1, as a share of the largest. In a joint file, one of both assays must have it,
    because most of the genome is outside of exome calling. Where its records state ``AN_joint`` alone, this is compared
    with what the genomes of the release can give.
    """
    low = pa.repeat(pa.scalar(False), batch.num_rows)
    for name, fields in layout.sample_sets.items():
        if fields.an is None:
            continue
        most = float(largest.get((contig.name, fields.an), 0))
        if name == MAIN and layout.genome_alleles is not None:
            most = min(most, layout.genome_alleles * (_SHARE_OF_Y if contig.name == "chrY" else 1))
        in_set = pc.less(batch["an"], fraction * most)
        if name == MAIN:
            enough, known = _enough_in_an_assay(batch, contig, layout, largest, fraction)
            in_set = pc.if_else(known, pc.invert(enough), in_set)
        low = pc.or_(low, pc.and_(pc.equal(batch["sample_set"], name), pc.fill_null(in_set, False)))
    return low


def _enough_in_an_assay(
    batch: pa.RecordBatch, contig: Contig, layout: GnomadLayout, largest: LargestAn, fraction: float
) -> tuple[pa.BooleanArray, pa.BooleanArray]:
    """Return whether one assay has enough genotypes of each allele, and whether an assay states any."""
    enough, known = (pa.repeat(pa.scalar(False), batch.num_rows) for _ in range(2))
    for column, field in layout.assays.items():
        # An assay without a genotype on the whole contig says nothing.
        if most := largest.get((contig.name, field), 0):
            known = pc.or_(known, pc.is_valid(batch[column]))
            enough = pc.or_(enough, pc.fill_null(pc.greater_equal(batch[column], fraction * most), False))
    return enough, known
