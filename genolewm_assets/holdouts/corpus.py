"""Corpus windows that are, or may be, in held-out intervals by their place. Not here: similarity (``similar``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import GRCH38, Holdout, IntervalArray, meets
from genolewm_assets.holdouts.schema import HOLDOUT_CORPUS, CorpusReason
from genolewm_assets.variants import Bools, as_bools
from genolewm_assets.windows.corpus import PlacementHow

#: Columns of ``CORPUS_WINDOWS`` that this module reads.
CORPUS_COLUMNS = (
    "source", "record_id", "window_index", "maybe_human", "placement_how", "placed_contig", "placed_start",
    "placed_end", "stated_contig", "stated_start", "stated_end",
)  # fmt: skip


#: Number of bases other than N of each GRCh38 contig in the analysis sets. These sets mask (as N) the second copies of
#: repeat arrays on chr5, 14, 19, 21 and 22, and the pseudo-autosomal regions of chrY. Masked sequence can be found in
#: its first copy. The whole assembly has 40,088,619 such bases on chr21; compared with it, the sets lack 5.1 %.
GRCH38_BASES = MappingProxyType({
    "chr1": 230_481_012, "chr2": 240_548_228, "chr3": 198_100_135, "chr4": 189_752_667, "chr5": 178_983_193,
    "chr6": 170_078_522, "chr7": 158_970_131, "chr8": 144_768_136, "chr9": 121_790_550, "chr10": 133_262_962,
    "chr11": 134_533_742, "chr12": 133_137_816, "chr13": 97_983_125, "chr14": 88_518_101, "chr15": 84_641_325,
    "chr16": 81_805_943, "chr17": 82_920_204, "chr18": 80_089_605, "chr19": 55_766_397, "chr20": 63_944_257,
    "chr21": 38_038_574, "chr22": 37_071_985, "chrX": 154_893_029, "chrY": 23_636_355, "chrM": 16_568,
})  # fmt: skip

#: Smallest share, 0 to 1, of a contig's bases with which a search of the contig that finds nothing is conclusive.
CONCLUSIVE_SHARE = 0.95


def assembled_shares(genome: pa.Table, contigs: Iterable[str]) -> dict[str, float]:
    """Return the share, 0 to 1, of each contig's assembled bases in the genome; 1 for a contig of another length."""
    held = dict(zip(genome["contig"].to_pylist(), genome.to_pylist(), strict=True))
    shares = {}
    for name in contigs:
        row = held.get(name)
        if row is None:
            shares[name] = 0.0
        elif name in GRCH38 and name in GRCH38_BASES and GRCH38[name].length == row["length"]:
            shares[name] = min(1.0, row["acgt_bases"] / GRCH38_BASES[name])
        else:
            shares[name] = 1.0
    return shares


@dataclass(frozen=True, slots=True)
class CorpusRule:
    """Which corpus windows are excluded from training by their place, in doubt too; flanks have ``margin_bp`` bases.

    Stated coordinates count although they are not confirmed and the window aligns elsewhere; a stated contig alone
    counts if any part of it is held out. While a contig with held-out intervals is ``inconclusive``, every window that
    may be human is excluded, unless confirmed coordinates place it elsewhere: an alignment may be to a copy.
    """

    held: Mapping[Holdout, Mapping[str, IntervalArray]]
    inconclusive: Set[str]
    margin_bp: int

    def masks(self, table: pa.Table) -> Iterator[tuple[Holdout, CorpusReason, Bools]]:
        """Yield which windows each holdout excludes for each reason: bool, shape (n_rows,)."""
        for holdout, intervals in self.held.items():
            placed = _is_placed_in(table, intervals, self.margin_bp)
            yield holdout, CorpusReason.PLACED, placed
            suspect = _may_come_from(table, intervals.keys(), self.inconclusive)
            yield holdout, CorpusReason.FAIL_CLOSED, suspect & ~placed

    def excludes(self, table: pa.Table) -> Bools:
        """Tell which windows any holdout excludes: bool, shape (n_rows,)."""
        excluded = np.zeros(table.num_rows, dtype=bool)
        for _, _, mask in self.masks(table):
            excluded |= mask
        return excluded

    def list_excluded(self, corpus: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield the windows that are excluded, schema ``HOLDOUT_CORPUS``, not sorted."""
        for table in corpus:
            for holdout, reason, mask in self.masks(table):
                rows = table.select(CORPUS_COLUMNS[:3]).filter(pa.array(mask))
                constants = (pa.repeat(str(value), rows.num_rows) for value in (holdout, reason))
                yield pa.table([*rows.columns, *constants], schema=HOLDOUT_CORPUS.arrow)


def _is_placed_in(table: pa.Table, intervals: Mapping[str, IntervalArray], margin_bp: int) -> Bools:
    """Tell which windows, both flanks included, overlap an interval, as placed or as stated: bool, shape (n_rows,)."""
    found = np.zeros(table.num_rows, dtype=bool)
    for place in ("placed", "stated"):
        start, end = (pc.fill_null(table[f"{place}_{bound}"], -1).to_numpy() for bound in ("start", "end"))
        known = as_bools(pc.is_valid(table[f"{place}_start"]))
        for contig, merged in intervals.items():
            rows = np.flatnonzero(known & as_bools(pc.equal(table[f"{place}_contig"], contig)))
            found[rows] |= meets(merged, start[rows] - margin_bp, end[rows] + margin_bp)
    return found


def _may_come_from(table: pa.Table, contigs: Set[str], inconclusive: Set[str]) -> Bools:
    """Tell which windows may come from one of the contigs although they are not known to overlap an interval."""
    suspect = np.zeros(table.num_rows, dtype=bool)
    for place in ("placed", "stated"):
        on_these = pc.is_in(table[f"{place}_contig"], value_set=pa.array(sorted(contigs), pa.string()))
        suspect |= as_bools(on_these) & as_bools(pc.is_null(table[f"{place}_start"]))
    if contigs & inconclusive:
        confirmed = as_bools(pc.equal(table["placement_how"], PlacementHow.COORDINATES))
        suspect |= ~confirmed & as_bools(table["maybe_human"])
    return suspect
