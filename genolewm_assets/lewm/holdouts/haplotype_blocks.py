"""Find blocks of nearby common alleles, and choose the blocks to hold out.

Without genotypes a block contains alleles that one haplotype may carry (proximity block); with phased genotypes,
alleles that one haplotype does carry. Not here: the windows and alleles that a held-out block excludes
(``held_intervals``, ``alleles``).
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
    """Block of nearby common alleles at two or more positions.

    Attributes
    ----------
    id
        First allele of the block, such as ``chr17:43044315:T:A``.
    span
        Interval from the first to the last reference base of the alleles; 0-based half-open.
    alleles
        Row numbers in the table of alleles, ascending.
    phased
        Whether the block comes from phased genotypes, in which a haplotype carries both alleles of every link.
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
        Common alleles of one contig with the columns ``ALLELE_KEY``, sorted by them.
    link_bp
        Alleles whose positions differ by at most this many bases are linked.
    max_block_bp
        Largest length of a block, in bases; an allele that would exceed it begins the next block.
    carried
        Phased genotypes: bool, shape (n_alleles, n_haplotypes). Two alleles are then linked only if a haplotype carries
        both. None: alleles are linked by distance alone.

    Returns
    -------
    list of HaplotypeBlock
        Blocks of two or more positions, sorted by span if ``carried`` is None. An allele without a link to an allele at
        another position is in no block.

    Raises
    ------
    InputError
        If the table is not sorted, has more than one contig, or ``carried`` has a different number of alleles.
    """
    start, end = allele_spans(table)
    _check_alleles(table, start, carried)
    if not len(start):
        return []
    linked = _group_by_distance(start, link_bp) if carried is None else _group_by_haplotype(start, link_bp, carried)
    groups = chain.from_iterable(_cut(rows, start, end, max_block_bp) for rows in _rows_by_group(linked))
    spread = [rows for rows in groups if start[rows[0]] != start[rows[-1]]]
    first = table.take(pa.array([int(rows[0]) for rows in spread], pa.int64()))
    ids = [":".join(map(str, row)) for row in zip(*(first[name].to_pylist() for name in ALLELE_KEY), strict=True)]
    contig = table["chrom"][0].as_py()
    return [
        HaplotypeBlock(
            name, Interval(contig, int(start[rows[0]]), int(end[rows].max())), tuple(rows.tolist()), carried is not None
        )
        for name, rows in zip(ids, spread, strict=True)
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
    """Choose blocks by hash until they exclude a given share of the windows from training.

    Parameters
    ----------
    blocks
        Blocks of all contigs; those of contigs without windows are ignored.
    draws
        Random bits by block id; blocks are considered in ascending order of them.
    footprints
        Starts and ends of the footprints of all windows by contig, each int64, shape (n_windows,), ascending; 0-based
        half-open.
    fraction
        Target share of all windows, 0 to 1, whose footprints overlap a chosen block.
    tolerance
        A block that would raise the share above ``fraction + tolerance`` is skipped.
    max_blocks
        Largest share of the blocks, 0 to 1, that is chosen.

    Returns
    -------
    tuple
        Chosen blocks, in the order of the draws; and True if the target share was not reached.
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
        raise InputError(
            "common alleles", "not sorted by position on one contig", remedy="Pass the shard of one contig"
        )
    if carried is not None and (carried.ndim != 2 or len(carried) != len(start)):
        expected, got = f"({len(start)}, n_haplotypes)", f"{carried.shape}"
        raise InputError("phased genotypes", "shape does not match the alleles", expected=expected, got=got)


def _group_by_distance(start: Int64s, link_bp: int) -> Int64s:
    """Return a group number per allele; a new group begins where the previous allele is more than ``link_bp`` away."""
    return np.concatenate(([0], np.cumsum(np.diff(start) > link_bp))).astype(np.int64)


def _group_by_haplotype(start: Int64s, link_bp: int, carried: Bools) -> Int64s:
    """Return a group number per allele; alleles at most ``link_bp`` apart that one haplotype carries are linked."""
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
    """Cut a group of alleles before each allele that would make the block longer than ``max_block_bp``."""
    while rows.size:
        beyond = np.flatnonzero(end[rows] > start[rows[0]] + max_block_bp)
        # A single allele longer than max_block_bp forms a part of its own.
        size = max(1, int(beyond[0])) if beyond.size else len(rows)
        yield rows[:size]
        rows = rows[size:]
