"""How tests look into what was held out: the index of the tables, and what each window covers."""

from __future__ import annotations

from genolewm_assets.genome import IntervalArray
from genolewm_assets.holdouts.build import HoldoutInputs, HoldoutTables
from genolewm_assets.holdouts.index import HoldoutIndex


def index_of(held: HoldoutTables, inputs: HoldoutInputs) -> HoldoutIndex:
    return HoldoutIndex(held.intervals, held.alleles, held.corpus, contigs=inputs.contigs)


def footprints(inputs: HoldoutInputs, contig: str) -> IntervalArray:
    table = inputs.windows[contig]
    return IntervalArray(table["start"].to_numpy(), table["end"].to_numpy() + inputs.profile.margin_bp)
