"""Index of normalised alleles by position, as plain sorted arrays that compiled loops read and files may back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from genolewm_assets.errors import InputError
from genolewm_assets.genome import CLASSES, pos_from_start, start_from_pos
from genolewm_assets.variants import ALLELE_KEY

#: Code by clinical class, in the order of :data:`~genolewm_assets.genome.CLASSES`: P 0, LP 1, VUS 2, LB 3, B 4,
#: OTHER 5.
LABEL_CODES: Final[Mapping[str, int]] = {label: code for code, label in enumerate(CLASSES)}
#: Value of a class, stars or VariationID that is not known.
UNKNOWN: Final = -1
#: Most bytes of the text of an index, whose offsets are uint32.
_MOST_BYTES: Final = 2**32 - 1

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Classification:
    """What ClinVar states of n alleles; -1 where it states nothing."""

    #: int8, shape (n,): class, see :data:`LABEL_CODES`.
    label: NDArray[np.int8]
    #: int8, shape (n,): review stars, 0 to 4.
    stars: NDArray[np.int8]
    #: int64, shape (n,): VariationID.
    clinvar_id: Integers
    #: ``gene_at``, ``gene_ids``: int64, shape (n + 1,), and int64: NCBI GeneIDs of allele i are
    #: ``gene_ids[gene_at[i]:gene_at[i + 1]]``, in ClinVar's order.
    gene_at: Integers
    gene_ids: Integers

    @classmethod
    def of(cls, table: pa.Table) -> Self:
        """Return what the rows of a table state; its columns label, stars, clinvar_id and gene_ids may be missing."""
        label = _column(table, "label", pa.string())
        genes = _column(table, "gene_ids", pa.list_(pa.int64()))
        sizes = pc.list_value_length(genes).fill_null(0).to_numpy(zero_copy_only=False)
        code = pc.index_in(label, pa.array(CLASSES)).fill_null(UNKNOWN)
        return cls(
            label=code.to_numpy(zero_copy_only=False).astype(np.int8),
            stars=_integers(table, "stars").astype(np.int8),
            clinvar_id=_integers(table, "clinvar_id"),
            gene_at=np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
            gene_ids=pc.list_flatten(genes).to_numpy(zero_copy_only=False).astype(np.int64),
        )

    def __len__(self) -> int:
        """Return the number of alleles."""
        return len(self.label)

    def take(self, rows: Integers) -> Classification:
        """Return what is stated of the alleles of some rows: int64, shape (n,); of row -1 nothing is."""
        known, at = rows >= 0, np.maximum(rows, 0)
        if not len(self):
            return Classification.unknown(len(rows))
        label, stars = (np.where(known, column[at], np.int8(UNKNOWN)) for column in (self.label, self.stars))
        clinvar_id = np.where(known, self.clinvar_id[at], UNKNOWN)
        first = np.where(known, self.gene_at[at], 0)
        size = np.where(known, self.gene_at[at + 1] - first, 0)
        ends = np.concatenate(([0], np.cumsum(size)))
        # Gene k of allele i lies at first[i] + k, and at ends[i] + k in the result.
        genes = self.gene_ids[np.repeat(first - ends[:-1], size) + np.arange(ends[-1])]
        return Classification(label, stars, clinvar_id, ends, genes)

    @classmethod
    def unknown(cls, n: int) -> Self:
        """Return n alleles of which nothing is stated."""
        missing = np.full(n, UNKNOWN, dtype=np.int64)
        label, stars = missing.astype(np.int8), missing.astype(np.int8)
        return cls(label, stars, missing, np.zeros(n + 1, np.int64), np.zeros(0, np.int64))

    @classmethod
    def concatenate(cls, parts: Sequence[Classification]) -> Self:
        """Return what several state, one after the other."""
        sizes, plain = [np.diff(part.gene_at) for part in parts], ("label", "stars", "clinvar_id", "gene_ids")
        return cls(
            **{name: np.concatenate([getattr(part, name) for part in parts]) for name in plain},
            gene_at=np.concatenate(([0], np.cumsum(np.concatenate(sizes)))).astype(np.int64),
        )


@dataclass(frozen=True, slots=True, eq=False)
class AlleleIndex:
    """Alleles sorted by contig, position, ref and alt. An allele may occur in several rows."""

    #: int64, shape (n,): 1-based.
    pos: Integers
    #: uint32, shape (2 n + 1,): ref of row i is ``text[at[2 i]:at[2 i + 1]]``, alt ``text[at[2 i + 1]:at[2 i + 2]]``.
    at: NDArray[np.uint32]
    #: uint8: upper-case ASCII.
    text: NDArray[np.uint8]
    #: First row of every contig, and the row behind its last.
    contigs: Mapping[str, tuple[int, int]]
    #: Bases of the longest alt.
    longest_bp: int
    #: What ClinVar states of the alleles; None: nothing of any.
    classification: Classification | None = None

    @classmethod
    def of(cls, table: pa.Table) -> Self:
        """Return the alleles of a table: chrom, pos (1-based), ref, alt in normal form, and what ClinVar states."""
        ordered = table.sort_by([(name, "ascending") for name in ALLELE_KEY])
        at, text, longest_bp = _texts(ordered)
        # Rows are sorted by contig name, so the dictionary codes rise, and the rows of a contig are contiguous.
        chrom = ordered["chrom"].combine_chunks().dictionary_encode()
        bounds = np.searchsorted(chrom.indices.to_numpy(), np.arange(len(chrom.dictionary) + 1)).tolist()
        return cls(
            pos=np.ascontiguousarray(ordered["pos"].to_numpy()),
            at=at,
            text=text,
            contigs=dict(zip(chrom.dictionary.to_pylist(), pairwise(bounds), strict=True)),
            longest_bp=longest_bp,
            classification=Classification.of(ordered) if "label" in table.column_names else None,
        )

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.pos)

    def contig_rows(self, contigs: Sequence[str]) -> Integers:
        """Return the first row of each contig and the row behind its last: int64, shape (n_contigs, 2)."""
        return np.array([self.contigs.get(contig, (0, 0)) for contig in contigs], dtype=np.int64).reshape(-1, 2)

    def rows(self, contig: str, start: int, end: int) -> range:
        """Return the rows of the alleles whose first base (``pos``) lies in ``[start, end)``, 0-based half-open."""
        first, stop = self.contigs.get(contig, (0, 0))
        if start >= end:
            return range(0)
        low, high = np.searchsorted(self.pos[first:stop], (pos_from_start(start), pos_from_start(end)))
        return range(first + int(low), first + int(high))

    def count(self, contig: str, starts: Integers, ends: Integers) -> Integers:
        """Return the number of alleles whose first base lies in each ``[start, end)``: int64, shape (len(starts),)."""
        pos = self.pos[slice(*self.contigs.get(contig, (0, 0)))]
        # ``pos`` is 1-based.
        found: Integers = np.searchsorted(pos, ends + 1) - np.searchsorted(pos, starts + 1)
        return np.maximum(found, 0)

    def allele(self, row: int) -> tuple[int, str, str]:
        """Return pos (1-based), ref and alt of a row."""
        first, middle, end = self.at[2 * row : 2 * row + 3].tolist()
        both = self.text[first:end].tobytes().decode("ascii")
        return int(self.pos[row]), both[: middle - first], both[middle - first :]

    def contains(self, chrom: str, pos: int, ref: str, alt: str) -> bool:
        """Return whether the index contains an allele, given in normal form with ``pos`` 1-based."""
        return any(self.allele(row)[1:] == (ref, alt) for row in self.rows(chrom, start_from_pos(pos), pos))


def _texts(table: pa.Table) -> tuple[NDArray[np.uint32], NDArray[np.uint8], int]:
    """Return offsets and text of ref and alt of every row, and the bases of the longest alt."""
    alleles = [table[name].combine_chunks().cast(pa.large_string()) for name in ("ref", "alt")]
    sizes = np.zeros((table.num_rows, 2), dtype=np.int64)
    for column, texts in enumerate(alleles):
        sizes[:, column] = pc.binary_length(texts).to_numpy(zero_copy_only=False)
    at = np.concatenate(([0], np.cumsum(sizes.ravel())))
    if at[-1] > _MOST_BYTES:
        raise InputError("alleles", "texts too long", expected=f"at most {_MOST_BYTES:,} bytes", got=f"{int(at[-1]):,}")
    buffer = pc.binary_join_element_wise(*alleles, pa.scalar("", pa.large_string())).buffers()[2]
    text = np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)[: at[-1]]
    return at.astype(np.uint32), text, int(sizes[:, 1].max(initial=0))


def _column(table: pa.Table, name: str, type_: pa.DataType) -> pa.Array:
    """Return a column, nulls if the table has none."""
    if name not in table.column_names:
        return pa.nulls(table.num_rows, type_)
    return table[name].combine_chunks().cast(type_)


def _integers(table: pa.Table, name: str) -> Integers:
    column: Integers = _column(table, name, pa.int64()).fill_null(UNKNOWN).to_numpy(zero_copy_only=False)
    return column
