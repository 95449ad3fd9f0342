"""``HoldoutIndex``: tell whether windows, alleles and corpus windows are held out; used by packages and training.

Intervals are found by binary search in sorted arrays, so a query takes about as long with 100,000 intervals as with
100.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import AlleleError
from genolewm_assets.genome import GRCH38, NO_INTERVALS, ContigSet, IntervalArray, meets
from genolewm_assets.holdouts.held_intervals import merge_intervals
from genolewm_assets.holdouts.policy import canonical_name
from genolewm_assets.holdouts.schema import HOLDOUT_ALLELES, HOLDOUT_CORPUS, HOLDOUT_INTERVALS, HOLDOUT_SIMILAR
from genolewm_assets.holdouts.similar import REFERENCE, corpus_keys, is_excluded
from genolewm_assets.variants import ALLELE_KEY, Bools, Int64s, allele_keys, allele_spans, as_bools


class HoldoutIndex:
    """Index of the holdout tables, for queries by interval, allele, window and corpus record.

    Parameters
    ----------
    intervals, alleles, corpus_rows
        Schemas ``HOLDOUT_INTERVALS``, ``HOLDOUT_ALLELES`` and ``HOLDOUT_CORPUS``.
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
    Names are resolved to canonical ones, so a query for ``21`` finds what is held out on ``chr21``. A query with an
    unknown contig raises :class:`UnknownContigError`.
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
        HOLDOUT_ALLELES.check(alleles.schema, where="holdouts/alleles")
        HOLDOUT_CORPUS.check(corpus_rows.schema, where="holdouts/corpus")
        HOLDOUT_SIMILAR.check(similar.schema, where="holdouts/similar")
        self._contigs = contigs
        ours = similar.filter(pc.and_(is_excluded(similar), pc.equal(similar["origin"], REFERENCE)))
        self._similar = {
            contig: ours["start"].filter(pc.equal(ours["contig"], contig)).combine_chunks()
            for contig in pc.unique(ours["contig"]).to_pylist()
        }
        self._merged = merge_intervals(intervals)
        self._keys = pc.unique(allele_keys(alleles))
        self._corpus_keys = pc.unique(corpus_keys(corpus_rows))

    def window_is_held_out(self, contig: str, footprints: IntervalArray) -> Bools:
        """Tell which windows are excluded from training because their footprints overlap a held-out interval.

        Parameters
        ----------
        contig
            Name or alias of the contig.
        footprints
            Footprint ``[start, end + margin_bp)`` of each window, 0-based half-open on ``contig``.

        Returns
        -------
        ndarray
            bool, shape (len(footprints),), in the order of the footprints.

        Raises
        ------
        UnknownContigError
            If neither the genome nor GRCh38 has the contig.
        """
        return meets(self._intervals_of(contig), footprints.start, footprints.end)

    def window_is_similar(self, contig: str, starts: Int64s) -> Bools:
        """Tell which reference windows are excluded from training because they are similar to held-out sequence.

        Parameters
        ----------
        contig
            Name or alias of the contig.
        starts
            First base of each window, 0-based: int64, shape (n_windows,).

        Returns
        -------
        ndarray
            bool, shape (n_windows,).

        Raises
        ------
        UnknownContigError
            If neither the genome nor GRCh38 has the contig.
        """
        found = self._similar.get(canonical_name(contig, self._contigs))
        return np.zeros(len(starts), dtype=bool) if found is None else np.isin(starts, found.to_numpy())

    def allele_is_held_out(self, table: pa.Table) -> Bools:
        """Tell which alleles are excluded from training.

        An allele is excluded if the allele table lists it, or if its reference bases overlap a held-out interval.

        Parameters
        ----------
        table
            Columns chrom, pos (1-based), ref and alt; alleles in normal form.

        Returns
        -------
        ndarray
            bool, shape (n_rows,).

        Raises
        ------
        AlleleError
            If an allele is not in normal form, because a different notation of a held-out allele would not be found.
        UnknownContigError
            If neither the genome nor GRCh38 has a contig of the table.
        """
        _check_normal_form(table)
        names = pc.unique(table["chrom"]).to_pylist()
        canonical = {name: canonical_name(name, self._contigs) for name in names}
        if any(name != spelling for spelling, name in canonical.items()):
            renamed = pa.array([canonical[name] for name in table["chrom"].to_pylist()], pa.string())
            table = table.set_column(table.column_names.index("chrom"), "chrom", renamed)
        listed = pc.is_in(allele_keys(table), value_set=self._keys)
        return self._in_intervals(table) | as_bools(listed)

    def corpus_is_held_out(self, table: pa.Table) -> Bools:
        """Tell which corpus windows are excluded from training.

        Parameters
        ----------
        table
            Columns source, record_id and window_index.

        Returns
        -------
        ndarray
            bool, shape (n_rows,).
        """
        return as_bools(pc.is_in(corpus_keys(table), value_set=self._corpus_keys))

    def _intervals_of(self, contig: str) -> IntervalArray:
        return self._merged.get(canonical_name(contig, self._contigs), NO_INTERVALS)

    def _in_intervals(self, table: pa.Table) -> Bools:
        """Tell which alleles, with canonical contig names, have a reference base in a held-out interval."""
        start, end = allele_spans(table)
        found = np.zeros(table.num_rows, dtype=bool)
        for contig, merged in self._merged.items():
            rows = np.flatnonzero(as_bools(pc.equal(table["chrom"], contig)))
            found[rows] = meets(merged, start[rows], end[rows])
        return found


def _check_normal_form(table: pa.Table) -> None:
    """Raise :class:`AlleleError` for the first allele that is not trimmed and left-aligned.

    First and last bases of ``ref`` and ``alt`` are enough to decide this (Tan et al. 2015); no reference is needed.
    """
    ref, alt = table["ref"], table["alt"]
    both_long = pc.and_(*(pc.greater(pc.binary_length(column), 1) for column in (ref, alt)))
    same_start = pc.equal(*(pc.utf8_slice_codeunits(column, 0, 1) for column in (ref, alt)))
    same_end = pc.equal(*(pc.utf8_slice_codeunits(column, -1) for column in (ref, alt)))
    # At position 1 no base precedes an indel, so its padding base is the one after it (VCF 4.3 §1.6.1).
    movable = pc.and_(same_end, pc.or_(both_long, pc.greater(table["pos"], 1)))
    wrong = pc.or_(movable, pc.and_(both_long, same_start))
    rows = np.flatnonzero(as_bools(wrong))
    if rows.size:
        raise _not_normal(*(table[name][int(rows[0])].as_py() for name in ALLELE_KEY))


def _not_normal(chrom: str, pos: int, ref: str, alt: str) -> AlleleError:
    return AlleleError(
        f"{chrom}:{pos} {ref}>{alt}",
        "allele is not in normal form, so it cannot be looked up among the held-out alleles",
        expected="trimmed and left-aligned",
        got=f"{ref!r} to {alt!r}",
        remedy="Normalise it against the reference first",
    )
