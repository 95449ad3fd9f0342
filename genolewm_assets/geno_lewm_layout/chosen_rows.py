"""Rows of a package that geno-lewm may be given: its trainer edits any base of any window and filters nothing.

So a window leaves with its flanks wherever a held-out allele is, because a random edit could make the allele; our own
trainers keep the window and redraw the edit. Everything left out is counted by its reason.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property, lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.edits import HeldSequences
from genolewm_assets.geno_lewm_layout.columns import fits
from genolewm_assets.genome import IntervalArray, Split, meets
from genolewm_assets.memory_mapped import sampled
from genolewm_assets.packages import REFERENCE_ORIGIN, Package, VariantSource
from genolewm_assets.variants import ALLELE_KEY, Bools, Int64s, allele_spans, as_bools

#: gnomAD alleles that its trainer draws for each window; without any corpus window it stops where there are fewer.
N_GNOMAD = 3
_WINDOWS = ("origin", "contig", "start", "end", "placement_exact", "record_id", "window_index", "window_hash")
_COLUMNS = (*_WINDOWS, "sequence", "cache_key", "cache_row")
#: Columns of ``PACKAGE_VARIANTS`` that an export reads.
_ALLELES = ["source", *ALLELE_KEY, "af", "label", "stars", "clinvar_id"]
_SWAPPED = {"ref": "alt", "alt": "ref"}


class ChosenRows:
    """Windows and alleles of training that an export has: read the corpus, then the reference, then the alleles.

    ``counts``: rows by table and outcome, such as ``windows.reference.exported``.
    """

    def __init__(self, package: Package) -> None:
        self._package, self.counts = package, Counter[str]()
        self._held = _spans_by_contig(package.holdouts("alleles", ["chrom", "pos", "ref"]))
        self._spans: dict[str, list[tuple[Int64s, Int64s]]] = defaultdict(list)

    @property
    def has_corpus(self) -> bool:
        """Whether a corpus window was chosen; its trainer then fills missing real alleles by synthetic ones."""
        return self.counts["windows.corpus.exported"] > 0

    def total(self, noun: str, outcome: str = "") -> int:
        """Return the number of rows counted so far whose names begin with a noun and end with an outcome."""
        return sum(n for name, n in self.counts.items() if name.startswith(noun) and name.endswith(outcome))

    def corpus(self) -> Iterator[pa.Table]:
        """Yield the corpus windows that may train, columns of ``PACKAGE_WINDOWS``."""
        for windows in self._batches(of_reference=False):
            shown = self._near_held_out(windows) | self._spelling_held_out(windows)
            yield self._count(windows, "windows.corpus", shows_held_out=shown)

    def reference(self) -> Iterator[pa.Table]:
        """Yield the reference windows that may train; without a corpus window, those with enough alleles of gnomAD."""
        for windows in self._batches(of_reference=True):
            drops = {"shows_held_out": self._near_held_out(windows)}
            if not self.has_corpus:
                drops["under_3_gnomad"] = self._n_gnomad(windows) < N_GNOMAD
            kept = self._count(windows, "windows.reference", **drops)
            for contig, ours in _by_contig(kept, "contig"):
                self._spans[contig].append((ours["start"].to_numpy(), ours["end"].to_numpy()))
            yield kept

    def alleles(self, source: VariantSource) -> Iterator[pa.Table]:
        """Yield the alleles of a source that training samples and a chosen reference window contains."""
        for contig in sorted(self._package.variant_contigs()):
            alleles, noun = self._alleles(source, contig), f"alleles.{source}"
            ours = _sampled(alleles, source)
            self.counts[f"{noun}.not_sampled"] += alleles.num_rows - ours.num_rows
            in_a_window = self._in_a_window(contig, *allele_spans(ours))
            yield self._count(ours, noun, over_16_bp=~fits(ours), in_no_window=~in_a_window)

    def _batches(self, *, of_reference: bool) -> Iterator[pa.Table]:
        for ref in self._package.info.pieces:
            if (ref.origin == REFERENCE_ORIGIN) is of_reference:
                for rows, trains in self._package.piece_rows(ref, _COLUMNS):
                    yield rows.filter(pa.array(trains))
        for batch in self._package.own_batches(Split.TRAIN, _COLUMNS):
            ours = pc.equal(batch["origin"], REFERENCE_ORIGIN)
            yield pa.table(batch.filter(ours if of_reference else pc.invert(ours)))

    def _count(self, rows: pa.Table, noun: str, **drops: Bools) -> pa.Table:
        """Return the rows that no reason drops; a row counts for the first that does."""
        kept = np.ones(rows.num_rows, np.bool_)
        for reason, dropped in drops.items():
            self.counts[f"{noun}.{reason}"] += int(np.count_nonzero(kept & dropped))
            kept &= ~dropped
        self.counts[f"{noun}.exported"] += int(np.count_nonzero(kept))
        return rows.filter(pa.array(kept))

    def _near_held_out(self, windows: pa.Table) -> Bools:
        """Tell which windows have a held-out allele in them or in their flanks, by the place that is known of them.

        The flanks count because the same change can be written further right than its normal form.
        """
        found, margin = np.zeros(windows.num_rows, np.bool_), self._package.info.margin_bp
        contigs = windows["contig"].to_numpy(zero_copy_only=False)
        for contig, held in self._held.items():
            here = contigs == contig
            start, end = (windows[name].filter(pa.array(here)).to_numpy() for name in ("start", "end"))
            found[here] = meets(held, start - margin, end + margin)
        return found

    def _spelling_held_out(self, windows: pa.Table) -> Bools:
        """Tell which windows without an exact place have the bases that a held-out allele replaces, or makes."""
        exact, found = as_bools(windows["placement_exact"]), np.zeros(windows.num_rows, np.bool_)
        for row in np.flatnonzero(~exact).tolist():
            text = windows["sequence"][row].as_py()
            found[row] = any(text in held for held in self._held_sequences)
        return found

    @cached_property
    def _held_sequences(self) -> tuple[HeldSequences, HeldSequences]:
        """The 31-mers that held-out alleles make, and those of the reference that they replace."""
        batches = self._package.context_batches
        swapped = (batch.rename_columns([_SWAPPED.get(n, n) for n in batch.schema.names]) for batch in batches())
        return HeldSequences(batches()), HeldSequences(swapped)

    def _n_gnomad(self, windows: pa.Table) -> Int64s:
        """Return how many alleles of gnomAD lie wholly in each window: int64, shape (n_windows,)."""
        found = np.zeros(windows.num_rows, np.int64)
        contigs = windows["contig"].to_numpy(zero_copy_only=False)
        for contig in np.unique(contigs).tolist():
            here, (starts, ends) = contigs == contig, self._gnomad_spans(contig)
            start, end = (windows[name].filter(pa.array(here)).to_numpy() for name in ("start", "end"))
            # Alleles are shorter than windows, so those that begin before a window end before its end.
            found[here] = np.searchsorted(ends, end, side="right") - np.searchsorted(starts, start, side="left")
        return found

    @lru_cache(maxsize=1)  # noqa: B019 - windows come contig by contig, and the rows live as long as one export
    def _gnomad_spans(self, contig: str) -> tuple[Int64s, Int64s]:
        alleles = _sampled(self._alleles(VariantSource.GNOMAD, contig), VariantSource.GNOMAD)
        start, end = allele_spans(alleles.filter(pa.array(fits(alleles))))
        return np.sort(start), np.sort(end)

    def _alleles(self, source: VariantSource, contig: str) -> pa.Table:
        where = (pc.field("chrom") == contig) & (pc.field("source") == str(source))
        return self._package.variants(Split.TRAIN, _ALLELES, where=where).combine_chunks()

    def _in_a_window(self, contig: str, start: Int64s, end: Int64s) -> Bools:
        """Tell which alleles lie wholly in a chosen window."""
        if not self._spans[contig]:
            return np.zeros(len(start), np.bool_)
        starts, ends = (np.concatenate(part) for part in zip(*self._spans[contig], strict=True))
        windows = IntervalArray.from_unsorted(starts, ends)
        furthest = np.concatenate([[0], np.maximum.accumulate(windows.end)])
        found: Bools = furthest[np.searchsorted(windows.start, start, side="right")] >= end
        return found


def _sampled(alleles: pa.Table, source: VariantSource) -> pa.Table:
    return sampled(alleles, source, Split.TRAIN, min_stars=0)


def _spans_by_contig(alleles: pa.Table) -> dict[str, IntervalArray]:
    return {contig: IntervalArray.from_unsorted(*allele_spans(ours)) for contig, ours in _by_contig(alleles, "chrom")}


def _by_contig(rows: pa.Table, column: str) -> Iterator[tuple[str, pa.Table]]:
    for contig in pc.unique(rows[column]).to_pylist():
        yield contig, rows.filter(pc.equal(rows[column], contig))
