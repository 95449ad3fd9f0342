"""Index of normalised alleles by position: find the alleles in an interval, and test whether an allele is present.

Both are binary searches in sorted arrays, so that their cost hardly grows with the number of alleles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from genolewm_assets.genome import pos_from_start, start_from_pos
from genolewm_assets.variants import ALLELE_KEY

#: Columns of a :class:`Classification`.
_CLASSIFICATION = ("label", "stars", "clinvar_id", "gene_ids")


@dataclass(frozen=True, slots=True)
class Classification:
    """What ClinVar states of an allele.

    Attributes
    ----------
    label
        Class, such as ``P``.
    stars
        Review stars, 0 to 4; None if not known.
    clinvar_id
        VariationID; None if not known.
    gene_ids
        NCBI GeneIDs in ClinVar's order.
    """

    label: str
    stars: int | None = None
    clinvar_id: int | None = None
    gene_ids: tuple[int, ...] = ()


class AlleleIndex:
    """Alleles of a table, sorted by contig and position.

    Parameters
    ----------
    table
        Columns chrom, pos (1-based), ref and alt, in normal form; optionally those of :class:`Classification`. An
        allele may occur in several rows.
    """

    __slots__ = ("_alt", "_classification", "_contigs", "_pos", "_ref")

    def __init__(self, table: pa.Table) -> None:
        present = [name for name in _CLASSIFICATION if name in table.column_names]
        ordered = table.select([*ALLELE_KEY, *present]).sort_by([(name, "ascending") for name in ALLELE_KEY])
        self._pos: NDArray[np.int64] = ordered["pos"].to_numpy()
        self._ref, self._alt = ordered["ref"].combine_chunks(), ordered["alt"].combine_chunks()
        self._classification = {name: ordered[name].combine_chunks() for name in present}
        # Rows are sorted by contig name, so the dictionary codes rise, and the rows of a contig are contiguous.
        chrom = ordered["chrom"].combine_chunks().dictionary_encode()
        code = chrom.indices.to_numpy()
        bounds = np.searchsorted(code, np.arange(len(chrom.dictionary) + 1)).tolist()
        self._contigs = {name: slice(*bounds[i : i + 2]) for i, name in enumerate(chrom.dictionary.to_pylist())}

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._pos)

    @property
    def columns(self) -> tuple[NDArray[np.int64], pa.Array, pa.Array]:
        """Positions (1-based), refs and alts of all rows."""
        return self._pos, self._ref, self._alt

    def contig_rows(self, contig: str) -> range:
        """Return the rows of a contig."""
        own = self._contigs.get(contig, slice(0, 0))
        return range(own.start, own.stop)

    def rows(self, contig: str, start: int, end: int) -> range:
        """Return the rows of the alleles whose first base (``pos``) lies in ``[start, end)``, 0-based half-open."""
        contig_rows = self._contigs.get(contig)
        if contig_rows is None or start >= end:
            return range(0)
        low, high = np.searchsorted(self._pos[contig_rows], (pos_from_start(start), pos_from_start(end)))
        return range(contig_rows.start + int(low), contig_rows.start + int(high))

    def count(self, contig: str, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of alleles whose first base lies in each ``[start, end)``: int64, shape (len(starts),)."""
        contig_rows = self._contigs.get(contig)
        if contig_rows is None:
            return np.zeros(len(starts), dtype=np.int64)
        pos = self._pos[contig_rows]
        # ``pos`` is 1-based.
        found: NDArray[np.int64] = np.searchsorted(pos, ends + 1) - np.searchsorted(pos, starts + 1)
        return np.maximum(found, 0)

    def allele(self, row: int) -> tuple[int, str, str]:
        """Return pos (1-based), ref and alt of a row."""
        return int(self._pos[row]), self._ref[row].as_py(), self._alt[row].as_py()

    def classification(self, row: int) -> Classification | None:
        """Return what ClinVar states of the allele of a row, or None if the row or the table has no class."""
        label = self._classification.get("label")
        if label is None or not label[row].is_valid:
            return None
        found = {name: column[row].as_py() for name, column in self._classification.items()}
        return Classification(**found | {"gene_ids": tuple(found.get("gene_ids") or ())})

    def contains(self, chrom: str, pos: int, ref: str, alt: str) -> bool:
        """Return whether the index contains an allele, given in normal form with ``pos`` 1-based."""
        rows = self.rows(chrom, start_from_pos(pos), pos)
        return any(self._ref[row].as_py() == ref and self._alt[row].as_py() == alt for row in rows)
