"""Blocks of common alleles that stand close together, and the choice of some of them.

Without genotypes they are proximity blocks: alleles that one haplotype may carry. With phased genotypes, alleles that
one haplotype does carry. Not here: what becomes of the windows and alleles in them (``holdouts``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import InputError
from genolewm_assets.genome import Interval, connect
from genolewm_assets.variants import ALLELE_KEY, Bools, Int64s, allele_spans


@dataclass(frozen=True, slots=True)
class HaplotypeBlock:
    """Two alleles or more, at two positions or more.

    Attributes
    ----------
    id
        Its first allele, ``chr17:43044315:T:A``.
    span
        From the first reference base of its alleles to their last; 0-based half-open.
    alleles
        Rows of the table, ascending.
    phased
        Whether one haplotype was seen to carry each link's two alleles.
    """

    id: str
    span: Interval
    alleles: tuple[int, ...]
    phased: bool = False


def find_blocks(
    table: pa.Table, *, link_bp: int, max_block_bp: int, carried: Bools | None = None
) -> list[HaplotypeBlock]:
    """Group the alleles of one contig by single linkage.

    Parameters
    ----------
    table
        Common alleles with the columns ``ALLELE_KEY``, sorted by them.
    link_bp
        Alleles whose positions are at most this far apart are linked, in bases.
    max_block_bp
        No block is longer, in bases: the allele that would make it so begins the next one.
    carried
        bool, shape (n_alleles, n_haplotypes), of phased genotypes: linked are only alleles that a haplotype carries
        together. None: proximity alone.

    Returns
    -------
    list of HaplotypeBlock
        Sorted by span. Alleles that are linked to none, or only to others at their position, are in no block.

    Raises
    ------
    InputError
        If the table is not sorted or not of one contig, or ``carried`` is not of its alleles.
    """
    start, end = allele_spans(table)
    _check_alleles(table, start, carried)
    if not len(start):
        return []
    linked = _chain(start, link_bp) if carried is None else _carried_together(start, link_bp, carried)
    groups = chain.from_iterable(_cut(rows, start, end, max_block_bp) for rows in _rows_by_group(linked))
    several = [rows for rows in groups if start[rows[0]] != start[rows[-1]]]
    first = table.take(pa.array([int(rows[0]) for rows in several], pa.int64()))
    ids = [":".join(map(str, row)) for row in zip(*(first[name].to_pylist() for name in ALLELE_KEY), strict=True)]
    contig = table["chrom"][0].as_py()
    return [
        HaplotypeBlock(
            name, Interval(contig, int(start[rows[0]]), int(end[rows].max())), tuple(rows.tolist()), carried is not None
        )
        for name, rows in zip(ids, several, strict=True)
    ]


def choose_blocks(
    blocks: Iterable[HaplotypeBlock],
    draws: Mapping[str, int],
    footprints: Mapping[str, tuple[Int64s, Int64s]],
    *,
    fraction: float,
    tolerance: float,
    max_blocks: float,
) -> tuple[list[HaplotypeBlock], bool]:
    """Choose blocks by hash until a share of the windows is removed.

    Parameters
    ----------
    draws
        Random bits by block id: blocks are considered in this order.
    footprints
        Starts and ends, each int64, shape (n_windows,) and ascending, of all windows by contig; 0-based half-open.
    fraction
        Share of all windows, 0 to 1, whose footprints meet a chosen block.
    tolerance
        A block that would bring the share above ``fraction + tolerance`` is passed over.
    max_blocks
        Largest share of the blocks, 0 to 1, that is taken.

    Returns
    -------
    tuple
        The blocks, in the order of the draws; and whether those to be had were used up before the share was reached.
    """
    ranked = sorted((block for block in blocks if block.span.contig in footprints), key=lambda b: (draws[b.id], b.id))
    removed = {contig: np.zeros(len(start), dtype=bool) for contig, (start, _) in footprints.items()}
    total = sum(map(len, removed.values()))
    count, chosen = 0, list[HaplotypeBlock]()
    for block in ranked:
        if count >= fraction * total or len(chosen) == int(max_blocks * len(ranked)):
            break
        start, end = footprints[block.span.contig]
        low = np.searchsorted(end, block.span.start, side="right")
        high = np.searchsorted(start, block.span.end, side="left")
        met = removed[block.span.contig][low:high]
        more = int(np.count_nonzero(~met))
        if count + more <= (fraction + tolerance) * total:
            met[:] = True
            count += more
            chosen.append(block)
    return chosen, count < fraction * total


def _check_alleles(table: pa.Table, start: Int64s, carried: Bools | None) -> None:
    if (start[1:] < start[:-1]).any() or len(pc.unique(table["chrom"])) > 1:
        raise InputError("common alleles", "not sorted by position on one contig", remedy="Give one contig's shard")
    if carried is not None and (carried.ndim != 2 or len(carried) != len(start)):
        expected, got = f"({len(start)}, n_haplotypes)", f"{carried.shape}"
        raise InputError("phased genotypes", "not of the alleles", expected=expected, got=got)


def _chain(start: Int64s, link_bp: int) -> Int64s:
    """Return a group number per allele: a new one begins where the step from the allele before is too long."""
    return np.concatenate(([0], np.cumsum(np.diff(start) > link_bp))).astype(np.int64)


def _carried_together(start: Int64s, link_bp: int, carried: Bools) -> Int64s:
    """Return a group number per allele: linked are near ones that one haplotype carries together."""
    links: list[tuple[int, int]] = []
    for step in range(1, len(start)):
        near = np.flatnonzero(start[step:] - start[:-step] <= link_bp)
        if not near.size:
            break
        together = near[(carried[near] & carried[near + step]).any(axis=1)]
        links += zip(together.tolist(), (together + step).tolist(), strict=True)
    group = connect(links)
    return np.array([group.get(row, row) for row in range(len(start))], dtype=np.int64)


def _rows_by_group(group: Int64s) -> Iterator[Int64s]:
    order = np.argsort(group, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(group[order])) + 1)


def _cut(rows: Int64s, start: Int64s, end: Int64s, max_block_bp: int) -> Iterator[Int64s]:
    """Cut a group before each allele that would make a block too long."""
    while rows.size:
        beyond = np.flatnonzero(end[rows] > start[rows[0]] + max_block_bp)
        # A single allele longer than a block is one all the same.
        size = max(1, int(beyond[0])) if beyond.size else len(rows)
        yield rows[:size]
        rows = rows[size:]
