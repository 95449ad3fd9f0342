"""Is this window, allele or corpus row held out? One object answers for training, packages and sampling.

Interval questions are searches in sorted arrays, so that they cost no more with 100,000 intervals than with 100.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import AlleleError
from genolewm_assets.genome import GRCH38, ContigSet, IntervalArray
from genolewm_assets.lewm.holdouts.overlap import NO_INTERVALS, meets, merge_stretches
from genolewm_assets.lewm.holdouts.policy import canonical_name
from genolewm_assets.lewm.holdouts.schema import HOLDOUT_ALLELES, HOLDOUT_CORPUS, HOLDOUT_INTERVALS
from genolewm_assets.variants import ALLELE_KEY, Bools, allele_keys, allele_spans, as_bools, join_columns


class HoldoutIndex:
    """The three holdout tables, ready to be asked.

    Parameters
    ----------
    intervals, alleles, corpus_rows
        Schemas ``HOLDOUT_INTERVALS``, ``HOLDOUT_ALLELES`` and ``HOLDOUT_CORPUS``.
    contigs
        Of the genome; any of their names, or of GRCh38's, may be used in a question.

    Raises
    ------
    CorruptResourceError
        If a table does not have its schema.

    Notes
    -----
    An unknown contig raises :class:`UnknownContigError`: ``21`` must not slip past ``chr21``.
    """

    def __init__(
        self, intervals: pa.Table, alleles: pa.Table, corpus_rows: pa.Table, *, contigs: ContigSet = GRCH38
    ) -> None:
        HOLDOUT_INTERVALS.check(intervals.schema, where="holdouts/intervals")
        HOLDOUT_ALLELES.check(alleles.schema, where="holdouts/alleles")
        HOLDOUT_CORPUS.check(corpus_rows.schema, where="holdouts/corpus")
        self._contigs = contigs
        self._merged = merge_stretches(intervals)
        self._keys = pc.unique(allele_keys(alleles))
        self._corpus_keys = pc.unique(_corpus_keys(corpus_rows))

    def window_is_held_out(self, contig: str, footprints: IntervalArray) -> Bools:
        """Tell which windows leave training.

        Parameters
        ----------
        footprints
            ``[start, end + margin_bp)`` of each, 0-based half-open on ``contig``.

        Returns
        -------
        ndarray
            bool, shape (len(footprints),), in the footprints' order.
        """
        return meets(self._intervals_of(contig), footprints.start, footprints.end)

    def allele_is_held_out(self, table: pa.Table) -> Bools:
        """Tell which alleles leave training: those listed, and those whose reference bases meet a held-out stretch.

        Parameters
        ----------
        table
            With chrom, pos (1-based), ref and alt, in normal form.

        Returns
        -------
        ndarray
            bool, shape (n_rows,).

        Raises
        ------
        AlleleError
            If an allele is not in normal form: another spelling of a held-out allele would not be recognised.
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
        """Tell which corpus windows leave training: bool, shape (n_rows,); needs source, record_id, window_index."""
        return as_bools(pc.is_in(_corpus_keys(table), value_set=self._corpus_keys))

    def _intervals_of(self, contig: str) -> IntervalArray:
        return self._merged.get(canonical_name(contig, self._contigs), NO_INTERVALS)

    def _in_intervals(self, table: pa.Table) -> Bools:
        """Tell which alleles, on canonical contigs, have a reference base in a held-out stretch."""
        start, end = allele_spans(table)
        found = np.zeros(table.num_rows, dtype=bool)
        for contig, merged in self._merged.items():
            rows = np.flatnonzero(as_bools(pc.equal(table["chrom"], contig)))
            found[rows] = meets(merged, start[rows], end[rows])
        return found


def _corpus_keys(table: pa.Table) -> pa.Array:
    index = pc.cast(table["window_index"], pa.string())
    return join_columns(table["source"], index, table["record_id"])


def _check_normal_form(table: pa.Table) -> None:
    """Recognise the normal form from first and last bases (Tan et al. 2015), without the reference."""
    ref, alt = table["ref"], table["alt"]
    both_long = pc.and_(*(pc.greater(pc.binary_length(column), 1) for column in (ref, alt)))
    same_start = pc.equal(*(pc.utf8_slice_codeunits(column, 0, 1) for column in (ref, alt)))
    same_end = pc.equal(*(pc.utf8_slice_codeunits(column, -1) for column in (ref, alt)))
    # At a contig's first base an indel has nothing left of it to be anchored on (VCF 4.3 §1.6.1).
    movable = pc.and_(same_end, pc.or_(both_long, pc.greater(table["pos"], 1)))
    wrong = pc.or_(movable, pc.and_(both_long, same_start))
    rows = np.flatnonzero(as_bools(wrong))
    if rows.size:
        raise _not_normal(*(table[name][int(rows[0])].as_py() for name in ALLELE_KEY))


def _not_normal(chrom: str, pos: int, ref: str, alt: str) -> AlleleError:
    return AlleleError(
        f"{chrom}:{pos} {ref}>{alt}",
        "allele is not in normal form, so that it cannot be looked for among the held-out ones",
        expected="trimmed and left-aligned",
        got=f"{ref!r} to {alt!r}",
        remedy="Normalise it against the reference first",
    )
