"""Find blocks of nearby common alleles, choose the blocks to hold out, and list their haplotypes.

Without genotypes a block has alleles that one haplotype may carry (proximity block); with phased genotypes, alleles
that one haplotype does carry (phased block). An allele without a phased genotype is never in a phased block.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import InputError
from genolewm_assets.genome import Interval, Split, connect
from genolewm_assets.holdouts.phased import PhasedGenotypes
from genolewm_assets.holdouts.schema import HOLDOUT_HAPLOTYPES
from genolewm_assets.variants import ALLELE_KEY, Bools, Int64s, allele_spans, as_bools

_Cut: TypeAlias = Callable[[Int64s], Iterator[Int64s]]


@dataclass(frozen=True, slots=True)
class HaplotypeBlock:
    """Nearby common alleles at two or more positions; ``span``, 0-based half-open, has all their reference bases."""

    id: str
    span: Interval
    alleles: tuple[int, ...]
    phased: bool = False


class Blocks:
    """Blocks of one contig as arrays; an item is made when it is asked for.

    ``ids``: string; ``start``, ``end``: int64, 0-based half-open; ``phased``: bool, shape (n_blocks,) each. ``rows``,
    ``firsts``: int64: rows of the alleles of all blocks, and where those of each block begin, shape (n_blocks + 1,).
    """

    def __init__(self, contig: str, ids: pa.Array, columns: Sequence[Int64s], phased: Bools) -> None:
        self.contig, self.ids, self.phased = contig, ids, phased
        self.start, self.end, self.rows, self.firsts = columns

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[HaplotypeBlock]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, at: int) -> HaplotypeBlock:
        span = Interval(self.contig, int(self.start[at]), int(self.end[at]))
        rows = self.rows[self.firsts[at] : self.firsts[at + 1]]
        return HaplotypeBlock(self.ids[at].as_py(), span, tuple(rows.tolist()), bool(self.phased[at]))


def find_blocks(table: pa.Table, *, link_bp: int, max_block_bp: int, carried: PhasedGenotypes | None = None) -> Blocks:
    """Group the alleles of a contig, at most ``link_bp`` apart, by single linkage into blocks sorted by first allele.

    Of alleles with a phased genotype (``carried``) those are linked that one haplotype carries; the others are linked
    among themselves. An allele that would make a block longer than ``max_block_bp`` begins the next; a block has two or
    more positions.
    """
    start, end = allele_spans(table)
    _check_alleles(table, start, carried)
    known = np.zeros(len(start), dtype=bool) if carried is None else carried.known
    cut = partial(_cut, start=start, end=end, max_block_bp=max_block_bp)
    rows = np.flatnonzero(~known)
    # Neighbours of a chain are linked, so every piece of it is linked without the others.
    chains = np.split(rows, np.flatnonzero(np.diff(start[rows]) > link_bp) + 1)
    groups = [group for chain in chains for group in cut(chain)]
    if carried is not None:
        groups += _groups_by_haplotype(np.flatnonzero(known), start, link_bp, cut, carried)
    spread = sorted((rows for rows in groups if start[rows[0]] != start[rows[-1]]), key=lambda rows: int(rows[0]))
    rows, firsts = np.concatenate([np.empty(0, np.int64), *spread]), np.zeros(len(spread) + 1, dtype=np.int64)
    np.cumsum([len(group) for group in spread], out=firsts[1:])
    first = table.take(pa.array(rows[firsts[:-1]]))
    key = [pc.cast(first[name], pa.string()).combine_chunks() for name in ALLELE_KEY]
    contig = str(table["chrom"][0]) if table.num_rows else ""
    ends = np.maximum.reduceat(end[rows], firsts[:-1]) if spread else rows
    columns = start[rows[firsts[:-1]]], ends, rows, firsts
    return Blocks(contig, pc.binary_join_element_wise(*key, ":"), columns, known[rows[firsts[:-1]]])


def choose_blocks(
    blocks: Iterable[Blocks],
    draw: Callable[[str], int],
    footprints: Mapping[str, tuple[Int64s, Int64s]],
    *,
    fraction: float,
    tolerance: float,
    max_blocks: float,
    first: Collection[str] = (),
) -> tuple[list[HaplotypeBlock], bool]:
    """Choose blocks by hash until they exclude a given share of the windows; tell also whether too few are left.

    A block that would raise the share above ``fraction + tolerance`` is skipped. Where the share ``max_blocks`` of all
    blocks is not enough, as many are chosen by the windows that each excludes, phased blocks first, if that comes
    nearer.
    """
    ranked = _Ranked([each for each in blocks if each.contig in footprints], draw, first)
    limit, windows = int(max_blocks * len(ranked)), _RemovedWindows(footprints, fraction, tolerance)
    chosen: list[HaplotypeBlock] = []
    for block in ranked:
        if windows.are_enough or len(chosen) == limit:
            break
        if windows.remove(block):
            chosen.append(block)
    if windows.are_enough or len(chosen) < limit:
        return chosen, not windows.are_enough
    # So few blocks are not enough: as many that exclude more windows each come nearer to the target.
    largest, more = _choose_largest(ranked, limit, _RemovedWindows(footprints, fraction, tolerance))
    return (largest if more.count > windows.count else chosen), not max(windows.are_enough, more.are_enough)


class _Ranked:
    """Blocks of all contigs: first those that are named, then phased ones, then by draw."""

    def __init__(self, blocks: Sequence[Blocks], draw: Callable[[str], int], first: Collection[str]) -> None:
        self._blocks = blocks
        names = pa.array(list(first), pa.string())
        draws = (draw(name) for each in blocks for some in _batches(each.ids) for name in some.to_pylist())
        numbers = np.fromiter(draws, dtype=np.uint64, count=sum(map(len, blocks)))
        phased, named = (
            np.concatenate([np.empty(0, bool), *given])
            for given in (
                (each.phased for each in blocks),
                (as_bools(pc.is_in(each.ids, value_set=names)) for each in blocks),
            )
        )
        self._order = np.lexsort((numbers, ~phased, ~named))
        self._firsts = np.cumsum([0, *map(len, blocks)])
        self.phased: Bools = phased[self._order]

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, rank: int) -> HaplotypeBlock:
        at = int(self._order[rank])
        number = int(np.searchsorted(self._firsts, at, side="right")) - 1
        return self._blocks[number][at - int(self._firsts[number])]

    def __iter__(self) -> Iterator[HaplotypeBlock]:
        return map(self.__getitem__, range(len(self)))

    def gains(self, windows: _RemovedWindows) -> Int64s:
        """Return how many windows each block would exclude alone, by rank: int64, shape (n_blocks,)."""
        found = [np.empty(0, np.int64), *(windows.met_by(each.contig, each.start, each.end) for each in self._blocks)]
        return np.concatenate(found)[self._order]


def _batches(names: pa.Array) -> Iterator[pa.Array]:
    return (names.slice(first, 4_096) for first in range(0, len(names), 4_096))


class _RemovedWindows:
    """Windows that the chosen blocks exclude from training."""

    def __init__(self, footprints: Mapping[str, tuple[Int64s, Int64s]], fraction: float, tolerance: float) -> None:
        self._footprints = footprints
        self._removed = {contig: np.zeros(len(start), dtype=bool) for contig, (start, _) in footprints.items()}
        total = sum(map(len, self._removed.values()))
        self._target, self._most = fraction * total, (fraction + tolerance) * total
        self.count = 0

    @property
    def are_enough(self) -> bool:
        """Whether the target share is reached."""
        return self.count >= self._target

    def gain(self, block: HaplotypeBlock) -> int:
        """Return how many more windows a block excludes."""
        return int(np.count_nonzero(~self._met(block)))

    def remove(self, block: HaplotypeBlock) -> bool:
        """Exclude the windows of a block unless they are too many; return whether they are excluded."""
        gain = self.gain(block)
        if self.count + gain > self._most:
            return False
        self._met(block)[:] = True
        self.count += gain
        return True

    def met_by(self, contig: str, start: Int64s, end: Int64s) -> Int64s:
        """Return how many windows of a contig each interval meets: int64, shape (n_intervals,)."""
        low, high = self._bounds(contig, start, end)
        return high - low

    def _bounds(self, contig: str, start: Int64s, end: Int64s) -> tuple[Int64s, Int64s]:
        starts, ends = self._footprints[contig]
        return np.searchsorted(ends, start, side="right"), np.searchsorted(starts, end, side="left")

    def _met(self, block: HaplotypeBlock) -> Bools:
        low, high = self._bounds(block.span.contig, *np.array([[block.span.start], [block.span.end]]))
        return self._removed[block.span.contig][low[0] : high[0]]


def _choose_largest(
    ranked: _Ranked, limit: int, windows: _RemovedWindows
) -> tuple[list[HaplotypeBlock], _RemovedWindows]:
    """Choose at most ``limit`` blocks: phased ones first, then that with the most further windows, then by rank."""
    chosen: list[HaplotypeBlock] = []
    gains = ranked.gains(windows)
    order = np.lexsort((-gains, ~ranked.phased))
    # Blocks that lost windows to others since they were ordered.
    queue: list[tuple[bool, int, int]] = []
    at = 0
    while (queue or at < len(order)) and not windows.are_enough and len(chosen) < limit:
        fresh = [(not ranked.phased[each], -int(gains[each]), int(each)) for each in order[at : at + 1]]
        if queue and (not fresh or queue[0] < fresh[0]):
            by_distance, stated, rank = heappop(queue)
        else:
            by_distance, stated, rank = fresh[0]
            at += 1
        gain = -windows.gain(ranked[rank])
        if gain != stated:
            heappush(queue, (by_distance, gain, rank))
        elif windows.remove(ranked[rank]):
            chosen.append(ranked[rank])
    return chosen, windows


def _check_alleles(table: pa.Table, start: Int64s, carried: PhasedGenotypes | None) -> None:
    if (start[1:] < start[:-1]).any() or len(pc.unique(table["chrom"])) > 1:
        raise InputError(
            "common alleles", "not sorted by position on one contig", remedy="Pass the shard of one contig"
        )
    if carried is not None and len(carried) != len(start):
        expected, got = f"{len(start)} alleles", f"{len(carried)}"
        raise InputError("phased genotypes", "shape does not match the alleles", expected=expected, got=got)


def _groups_by_haplotype(
    rows: Int64s, start: Int64s, link_bp: int, cut: _Cut, carried: PhasedGenotypes
) -> Iterator[Int64s]:
    """Yield the rows of each group; alleles at most ``link_bp`` apart that one haplotype carries are linked."""
    links = _haplotype_links(rows, start, link_bp, carried)
    pieces = [piece for group in _components(rows, links) for piece in cut(group)]
    number = np.zeros(len(start), dtype=np.int64)
    for index, piece in enumerate(pieces):
        number[piece] = index
    # A link between two pieces is cut, and with it whatever was linked through it alone.
    yield from _components(rows, [(one, other) for one, other in links if number[one] == number[other]])


def _haplotype_links(rows: Int64s, start: Int64s, link_bp: int, carried: PhasedGenotypes) -> list[tuple[int, int]]:
    links: list[tuple[int, int]] = []
    for step in range(1, len(rows)):
        ones, others = rows[:-step], rows[step:]
        near = np.flatnonzero(start[others] - start[ones] <= link_bp)
        if not near.size:
            break
        together = near[carried.are_together(ones[near], others[near])]
        links += zip(ones[together].tolist(), others[together].tolist(), strict=True)
    return links


def _components(rows: Int64s, links: Iterable[tuple[int, int]]) -> Iterator[Int64s]:
    """Yield the rows of each connected component, ascending; a row without a link is a component of its own."""
    if not rows.size:
        return
    group = connect(links)
    label = np.array([group.get(row, row) for row in rows.tolist()], dtype=np.int64)
    order = np.argsort(label, kind="stable")
    yield from np.split(rows[order], np.flatnonzero(np.diff(label[order])) + 1)


def _cut(rows: Int64s, start: Int64s, end: Int64s, max_block_bp: int) -> Iterator[Int64s]:
    """Cut a group of alleles before each allele that would make the block longer than ``max_block_bp``."""
    while rows.size:
        beyond = np.flatnonzero(end[rows] > start[rows[0]] + max_block_bp)
        # A single allele longer than max_block_bp forms a part of its own.
        size = max(1, int(beyond[0])) if beyond.size else len(rows)
        yield rows[:size]
        rows = rows[size:]


def list_haplotypes(
    blocks: Iterable[HaplotypeBlock],
    roles: Mapping[str, Split],
    tables: Mapping[str, pa.Table],
    phased: Mapping[str, PhasedGenotypes],
) -> pa.Table:
    """List the haplotypes of blocks: sets of two or more alleles that one carries, or all alleles of a block."""
    rows: list[dict[str, object]] = []
    contig, table = "", pa.table({})
    for block in sorted(blocks, key=lambda block: block.span.contig):
        if block.span.contig != contig:
            # Read once for all of its blocks.
            contig = block.span.contig
            table = tables[contig]
        held = np.array(block.alleles, dtype=np.int64)
        sets: list[tuple[Int64s, int | None]] = [(held, None)]
        if block.phased:
            patterns, carriers = np.unique(phased[contig].carried(held), axis=1, return_counts=True)
            counted = zip(patterns.T, carriers.tolist(), strict=True)
            sets = [(held[pattern], n) for pattern, n in counted if np.count_nonzero(pattern) > 1]
        listed = table.select(ALLELE_KEY[1:])
        found = [(listed.take(pa.array(members)).to_pylist(), n) for members, n in sets]
        found.sort(key=lambda each: (-(each[1] or 0), [tuple(allele.values()) for allele in each[0]]))
        shared = {"role": str(roles[block.id]), "contig": contig, "unit": block.id, "phased": block.phased}
        rows += [
            {**shared, "number": number, "n_carriers": n, "alleles": alleles}
            for number, (alleles, n) in enumerate(found)
        ]
    keys = [(name, "ascending") for name in HOLDOUT_HAPLOTYPES.key]
    return pa.Table.from_pylist(rows, schema=HOLDOUT_HAPLOTYPES.arrow).sort_by(keys).combine_chunks()
