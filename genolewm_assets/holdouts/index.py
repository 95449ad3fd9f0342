"""``HoldoutIndex``: tell by binary search whether windows, alleles and corpus windows are held out."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import AlleleError
from genolewm_assets.genome import GRCH38, NO_INTERVALS, ContigSet, IntervalArray, meets
from genolewm_assets.holdouts.held_intervals import merge_intervals
from genolewm_assets.holdouts.policy import canonical_name
from genolewm_assets.holdouts.schema import (
    HOLDOUT_ALLELES,
    HOLDOUT_CORPUS,
    HOLDOUT_INTERVALS,
    HOLDOUT_SIMILAR,
    REFERENCE,
)
from genolewm_assets.holdouts.similar import corpus_keys
from genolewm_assets.variants import ALLELE_KEY, Bools, Int64s, allele_keys, allele_spans, as_bools


class HoldoutIndex:
    """Index of the holdout tables, for queries by interval, allele, window and corpus record.

    Parameters
    ----------
    intervals, alleles, corpus_rows
        Schemas ``HOLDOUT_INTERVALS``, ``HOLDOUT_ALLELES``, of which ``ALLELE_KEY`` is read, and ``HOLDOUT_CORPUS``.
    similar
        Schema ``HOLDOUT_SIMILAR``; None: no window is similar to held-out sequence.
    contigs
        Contigs of the genome. A query may use any of their names and aliases, or those of GRCh38.

    Raises
    ------
    CorruptResourceError
        If a table does not have its schema.

    Notes
    -----
    Names are resolved to canonical ones, so a query for ``21`` finds what is held out on ``chr21``. A query with a
    contig that neither the genome nor GRCh38 has raises :class:`UnknownContigError`.
    """

    def __init__(
        self,
        intervals: pa.Table,
        alleles: pa.Table,
        corpus_rows: pa.Table,
        similar: pa.Table | None = None,
        *,
        contigs: ContigSet = GRCH38,
    ) -> None:
        similar = HOLDOUT_SIMILAR.empty() if similar is None else similar
        HOLDOUT_INTERVALS.check(intervals.schema, where="holdouts/intervals")
        HOLDOUT_ALLELES.check(alleles.schema, where="holdouts/alleles", columns=ALLELE_KEY)
        HOLDOUT_CORPUS.check(corpus_rows.schema, where="holdouts/corpus")
        HOLDOUT_SIMILAR.check(similar.schema, where="holdouts/similar")
        self._contigs = contigs
        ours = similar.filter(pc.equal(similar["origin"], REFERENCE))
        self._similar = {
            contig: ours["start"].filter(pc.equal(ours["contig"], contig)).combine_chunks()
            for contig in pc.unique(ours["contig"]).to_pylist()
        }
        self._merged = merge_intervals(intervals)
        alleles = alleles.select(ALLELE_KEY)
        self._keys = {
            contig: pc.unique(allele_keys(alleles.filter(pc.equal(alleles["chrom"], contig))))
            for contig in pc.unique(alleles["chrom"]).to_pylist()
        }
        # A part of a sorted table, which is not copied; in others it has rows of other sources too.
        self._corpus = {
            source: corpus_rows.slice(rows[0], 1 + rows[-1] - rows[0])
            for source in pc.unique(corpus_rows["source"]).to_pylist()
            for rows in [np.flatnonzero(as_bools(pc.equal(corpus_rows["source"], source)))]
        }

    def window_is_held_out(self, contig: str, footprints: IntervalArray) -> Bools:
        """Tell which windows are excluded because their footprints overlap a held-out interval: bool, shape (n,).

        Footprints are ``[start, end + margin_bp)`` on ``contig``, 0-based half-open.
        """
        held = self._merged.get(canonical_name(contig, self._contigs), NO_INTERVALS)
        return meets(held, footprints.start, footprints.end)

    def window_is_similar(self, contig: str, starts: Int64s) -> Bools:
        """Tell which reference windows, by 0-based start, are similar to held-out sequence: bool, (n_windows,)."""
        found = self._similar.get(canonical_name(contig, self._contigs))
        return np.zeros(len(starts), dtype=bool) if found is None else np.isin(starts, found.to_numpy())

    def allele_is_held_out(self, table: pa.Table) -> Bools:
        """Tell which alleles are listed, or have a reference base in a held-out interval: bool, shape (n_rows,).

        ``table`` has the columns chrom, pos (1-based), ref and alt. :class:`AlleleError` is raised for an allele that
        is not in normal form, because another notation of a held-out allele would not be found.
        """
        _check_normal_form(table)
        names = pc.unique(table["chrom"]).to_pylist()
        canonical = {name: canonical_name(name, self._contigs) for name in names}
        if any(name != spelling for spelling, name in canonical.items()):
            renamed = pa.array([canonical[name] for name in table["chrom"].to_pylist()], pa.string())
            table = table.set_column(table.column_names.index("chrom"), "chrom", renamed)
        return self._in_intervals(table) | self._are_listed(table)

    def corpus_is_held_out(self, table: pa.Table) -> Bools:
        """Tell which corpus windows, by source, record_id and window_index, are excluded: bool, shape (n_rows,)."""
        found, keys = np.zeros(table.num_rows, dtype=bool), corpus_keys(table)
        for source in self._corpus.keys() & set(pc.unique(table["source"]).to_pylist()):
            listed = self._corpus[source]
            # Of the two, the table has fewer records to look up, and keys are made of few rows.
            near = listed.filter(pc.is_in(listed["record_id"], value_set=table["record_id"]))
            found |= as_bools(pc.is_in(keys, value_set=corpus_keys(near)))
        return found

    def _are_listed(self, table: pa.Table) -> Bools:
        """Tell which alleles, with canonical contig names, are held out themselves."""
        found = np.zeros(table.num_rows, dtype=bool)
        for contig in self._keys.keys() & set(pc.unique(table["chrom"]).to_pylist()):
            ours = pc.equal(table["chrom"], contig)
            found[as_bools(ours)] = as_bools(pc.is_in(allele_keys(table.filter(ours)), value_set=self._keys[contig]))
        return found

    def _in_intervals(self, table: pa.Table) -> Bools:
        """Tell which alleles, with canonical contig names, have a reference base in a held-out interval."""
        start, end = allele_spans(table)
        found = np.zeros(table.num_rows, dtype=bool)
        for contig, merged in self._merged.items():
            rows = np.flatnonzero(as_bools(pc.equal(table["chrom"], contig)))
            found[rows] = meets(merged, start[rows], end[rows])
        return found


def _check_normal_form(table: pa.Table) -> None:
    """Raise AlleleError for the first allele not trimmed and left-aligned, as its end bases tell (Tan et al. 2015)."""
    ref, alt = table["ref"], table["alt"]
    both_long = pc.and_(*(pc.greater(pc.binary_length(column), 1) for column in (ref, alt)))
    same_start = pc.equal(*(pc.utf8_slice_codeunits(column, 0, 1) for column in (ref, alt)))
    same_end = pc.equal(*(pc.utf8_slice_codeunits(column, -1) for column in (ref, alt)))
    # At position 1 no base precedes an indel, so its padding base is the one after it (VCF 4.3 §1.6.1).
    movable = pc.and_(same_end, pc.or_(both_long, pc.greater(table["pos"], 1)))
    wrong = pc.or_(movable, pc.and_(both_long, same_start))
    rows = np.flatnonzero(as_bools(wrong))
    if rows.size:
        chrom, pos, *alleles = (table[name][int(rows[0])].as_py() for name in ALLELE_KEY)
        raise AlleleError(
            f"{chrom}:{pos} {'>'.join(alleles)}",
            "allele is not in normal form, so it cannot be looked up among the held-out alleles",
            expected="trimmed and left-aligned",
            got=" to ".join(map(repr, alleles)),
            remedy="Normalise it against the reference first",
        )
