"""List the haplotypes of held-out blocks: which alleles of a block occur together, and how often.

Not here: blocks (``haplotype_blocks``), their roles (``held_intervals``), sampling of haplotypes (``lewm.edits``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from genolewm_assets.genome import Split
from genolewm_assets.lewm.holdouts.haplotype_blocks import HaplotypeBlock
from genolewm_assets.lewm.holdouts.phased import PhasedGenotypes
from genolewm_assets.lewm.holdouts.schema import HOLDOUT_HAPLOTYPES
from genolewm_assets.variants import ALLELE_KEY, Int64s


def list_haplotypes(
    blocks: Iterable[HaplotypeBlock],
    roles: Mapping[str, Split],
    tables: Mapping[str, pa.Table],
    phased: Mapping[str, PhasedGenotypes],
) -> pa.Table:
    """List the haplotypes of blocks.

    Parameters
    ----------
    blocks
        Held-out blocks.
    roles
        Role of each block, by its id.
    tables
        Common alleles by contig, with the columns ``ALLELE_KEY``; the blocks refer to their rows.
    phased
        Phased genotypes by contig.

    Returns
    -------
    pyarrow.Table
        Schema ``HOLDOUT_HAPLOTYPES``, sorted by its key. A phased block has one row for each distinct set of two or
        more of its alleles that a haplotype carries; another block has one row with all its alleles.
    """
    rows: list[dict[str, object]] = []
    for block in blocks:
        contig = block.span.contig
        held = np.array(block.alleles, dtype=np.int64)
        sets = _carried_sets(phased[contig], held) if block.phased else iter([(held, None)])
        found = [(_alleles(tables[contig], members), n) for members, n in sets]
        found.sort(key=lambda each: (-(each[1] or 0), [tuple(allele.values()) for allele in each[0]]))
        shared = {"role": str(roles[block.id]), "contig": contig, "unit": block.id, "phased": block.phased}
        rows += [
            {**shared, "number": number, "n_carriers": n, "alleles": alleles}
            for number, (alleles, n) in enumerate(found)
        ]
    keys = [(name, "ascending") for name in HOLDOUT_HAPLOTYPES.key]
    return pa.Table.from_pylist(rows, schema=HOLDOUT_HAPLOTYPES.arrow).sort_by(keys).combine_chunks()


def _carried_sets(genotypes: PhasedGenotypes, rows: Int64s) -> Iterator[tuple[Int64s, int]]:
    """Yield the distinct sets of two or more alleles that one haplotype carries, each with its number of haplotypes."""
    patterns, n_carriers = np.unique(genotypes.carried(rows), axis=1, return_counts=True)
    for pattern, n in zip(patterns.T, n_carriers.tolist(), strict=True):
        if np.count_nonzero(pattern) > 1:
            yield rows[pattern], n


def _alleles(table: pa.Table, rows: Int64s) -> list[dict[str, object]]:
    alleles: list[dict[str, object]] = table.select(ALLELE_KEY[1:]).take(pa.array(rows)).to_pylist()
    return alleles
