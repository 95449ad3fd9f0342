"""Held-out intervals of contigs (whole or in blocks, gene components, haplotype blocks), each with its role.

An interval takes the role of one of higher precedence (contig, gene, block) that it overlaps, so that validation never
contains test data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import ConfigurationError, counted
from genolewm_assets.genome import NO_INTERVALS, Holdout, IntervalArray, Split, connect, first_met
from genolewm_assets.holdouts.gene_components import GeneComponent, GeneComponents
from genolewm_assets.holdouts.haplotype_blocks import HaplotypeBlock
from genolewm_assets.holdouts.policy import HoldoutPolicy
from genolewm_assets.holdouts.schema import HOLDOUT_INTERVALS, IntervalReason
from genolewm_assets.holdouts.sides import EarlierSides, strictest
from genolewm_assets.variants import Int64s


@dataclass(frozen=True, slots=True)
class HeldInterval:
    """Row of the table ``HOLDOUT_INTERVALS``; ``start``, ``end`` are 0-based half-open."""

    holdout: Holdout
    role: Split
    contig: str
    start: int
    end: int
    unit: str
    name: str
    reason: IntervalReason


class HeldIntervals:
    """Held-out intervals by holdout and contig."""

    def __init__(self, intervals: Iterable[HeldInterval] = ()) -> None:
        self._rows: dict[tuple[Holdout, str], list[HeldInterval]] = {}
        for row in sorted(intervals, key=lambda row: (row.holdout, row.contig, row.start, row.end, row.unit)):
            self._rows.setdefault((row.holdout, row.contig), []).append(row)
        self._intervals = {
            key: IntervalArray.from_unsorted([row.start for row in rows], [row.end for row in rows])
            for key, rows in self._rows.items()
        }

    def of(self, holdout: Holdout, contig: str) -> list[HeldInterval]:
        """Return the intervals of one holdout on one contig, sorted by start."""
        return self._rows.get((holdout, contig), [])

    def find(self, holdout: Holdout, contig: str, start: Int64s, end: Int64s) -> Int64s:
        """Return the index in :meth:`of` of the first interval that each query overlaps, or -1: int64, (n_queries,)."""
        return first_met(self._intervals.get((holdout, contig), NO_INTERVALS), start, end)

    def find_largest(self, contig: str, start: Int64s, end: Int64s) -> list[HeldInterval | None]:
        """Return the interval of highest precedence (contig, gene, block) that each query overlaps, or None."""
        found: list[HeldInterval | None] = [None] * len(start)
        for holdout in (Holdout.HAPLOTYPES, Holdout.CLINVAR, Holdout.CHR):
            met = self.find(holdout, contig, start, end)
            for row in np.flatnonzero(met >= 0).tolist():
                found[row] = self.of(holdout, contig)[met[row]]
        return found

    def merged(self) -> dict[Holdout, dict[str, IntervalArray]]:
        """Return the union of the intervals by holdout and contig, as disjoint intervals sorted by start."""
        union: dict[Holdout, dict[str, IntervalArray]] = {}
        for (holdout, contig), intervals in self._intervals.items():
            union.setdefault(holdout, {})[contig] = intervals.merge()
        return union

    def to_table(self) -> pa.Table:
        """Return the rows in the schema ``HOLDOUT_INTERVALS``, sorted by its key."""
        rows = [asdict(row) for held in self._rows.values() for row in held]
        keys = [(name, "ascending") for name in HOLDOUT_INTERVALS.key]
        return pa.Table.from_pylist(rows, schema=HOLDOUT_INTERVALS.arrow).sort_by(keys).combine_chunks()


#: No interval.
NOTHING_HELD = HeldIntervals()


def merge_intervals(table: pa.Table) -> dict[str, IntervalArray]:
    """Return the union, by contig, of a table's intervals (contig, start, end: 0-based half-open) in any order."""
    merged: dict[str, IntervalArray] = {}
    for contig in pc.unique(table["contig"]).to_pylist():
        rows = table.filter(pc.equal(table["contig"], contig))
        merged[contig] = IntervalArray.from_unsorted(rows["start"].to_numpy(), rows["end"].to_numpy()).merge()
    return merged


def hold_contigs(
    policy: HoldoutPolicy, lengths: Mapping[str, int], windows: Mapping[str, Int64s] = MappingProxyType({})
) -> list[HeldInterval]:
    """Return an interval for each contig, of given length in bases, or block that the policy holds out.

    ``windows``: first bases of the windows by contig, 0-based; only blocks in which one begins are chosen from.
    """
    roles = policy.contig_roles()
    whole = [
        HeldInterval(Holdout.CHR, role, contig, 0, lengths[contig], contig, contig, IntervalReason.CONTIG)
        for contig, role in roles.items()
    ]
    size = policy.block_bp
    if size is None:
        return whole
    blocks = {(c, int(n)) for c, starts in windows.items() if c not in roles for n in np.unique(starts // size)}
    return whole + [
        HeldInterval(Holdout.CHR, role, contig, number * size, end, unit, unit, IntervalReason.CONTIG_BLOCK)
        for (contig, number), role in _choose_contig_blocks(policy, blocks).items()
        for end in (min((number + 1) * size, lengths[contig]),)
        for unit in (f"{contig}:{number * size + 1}-{end}",)
    ]


def _choose_contig_blocks(policy: HoldoutPolicy, blocks: Collection[tuple[str, int]]) -> dict[tuple[str, int], Split]:
    """Choose by hash the blocks (contig, number) of validation and test, so that none of both touch."""
    shares = {Split.VALIDATION: policy.block_validation_fraction, Split.TEST: policy.block_test_fraction}
    ranked = sorted(blocks, key=lambda block: (policy.draw("contig block", f"{block[0]}:{block[1]}"), block))
    chosen: dict[tuple[str, int], Split] = {}
    for role, share in shares.items():
        # A share above 0 holds out at least one.
        wanted = max(1, round(len(blocks) * share)) if blocks and share else 0
        others = {block for block, had in chosen.items() if had is not role}
        free = [
            (contig, number)
            for contig, number in ranked
            if (contig, number) not in chosen and not {(contig, number - 1), (contig, number + 1)} & others
        ]
        if len(free) < wanted:
            raise ConfigurationError(
                f"holdouts.block_{role}_fraction",
                f"of {counted(len(blocks), 'block')} with windows, {len(free)} are free and touch no other role",
                expected=f"{wanted} or more",
                got=f"{share:g} of them",
                remedy="Hold out smaller shares, or make holdouts.block_bp smaller",
            )
        chosen |= dict.fromkeys(free[:wanted], role)
    return chosen


def hold_genes(
    policy: HoldoutPolicy,
    components: GeneComponents,
    lengths: Mapping[str, int],
    window_bp: int,
    *,
    contigs: HeldIntervals = NOTHING_HELD,
    kept: Collection[str] = (),
    known: Mapping[str, Split] = MappingProxyType({}),
) -> list[HeldInterval]:
    """Return the intervals of held-out gene components: those with named genes or, by hash, a share of all.

    A gene extends beyond its outermost alleles: by ``window_bp`` here. ``contigs``: held-out contigs and blocks of
    them, whose role genes have that meet them. ``kept``: ids of components that must be held out; ``known``: roles from
    before, by id.
    """
    chosen = _choose_components(policy, components, kept)
    roles: dict[str, Split] = {}
    for component in chosen:
        met = [
            each.role
            for span in component.spans
            for each in contigs.of(Holdout.CHR, span.contig)
            if each.start < span.end + window_bp and span.start - window_bp < each.end
        ]
        if met:
            roles[component.id] = strictest(*met, *([known[component.id]] if component.id in known else ()))
    roles = policy.divide(component.id for component in chosen if component.id not in roles) | dict(known) | roles
    return [
        HeldInterval(
            Holdout.CLINVAR,
            roles[component.id],
            span.contig,
            max(0, span.start - window_bp),
            min(lengths[span.contig], span.end + window_bp),
            component.id,
            ",".join(component.symbols),
            IntervalReason.GENE_COMPONENT,
        )
        for component in chosen
        for span in component.spans
    ]


def kept_components(components: GeneComponents, before: EarlierSides) -> dict[str, Split]:
    """Return the role of each gene component that an earlier release held out, or a gene of it, by id."""
    genes, units, kept = before.of_genes(), before.of_units(), dict[str, Split]()
    for component in components:
        found = [genes[gene] for gene in component.genes & genes.keys()]
        if found:
            kept[component.id] = strictest(*found, *(units[unit] for unit in (component.id,) if unit in units))
    return kept


def settle_roles(intervals: Sequence[HeldInterval], kept: Mapping[str, Split]) -> list[HeldInterval]:
    """Give intervals of one holdout that overlap one role: of those with a role before the strictest, else of all."""
    at, links = sorted(intervals, key=lambda row: (row.contig, row.start)), list[tuple[str, str]]()
    last = at[0] if at else None
    for row in at[1:]:
        assert last is not None
        overlap = row.contig == last.contig and row.start < last.end
        links += [(last.unit, row.unit)] if overlap else []
        last = row if not overlap or row.end > last.end else last
    head, decided, found = connect(links), defaultdict[str, list[Split]](list), defaultdict[str, list[Split]](list)
    for row in intervals:
        group = head.get(row.unit, row.unit)
        found[group].append(row.role)
        decided[group] += [kept[row.unit]] if row.unit in kept else []
    roles = {group: strictest(*(decided[group] or each)) for group, each in found.items()}
    return [replace(row, role=roles[head.get(row.unit, row.unit)]) for row in intervals]


def hold_blocks(
    policy: HoldoutPolicy,
    blocks: Sequence[HaplotypeBlock],
    larger: HeldIntervals,
    kept: Mapping[str, Split] = MappingProxyType({}),
) -> list[HeldInterval]:
    """Return the intervals of chosen blocks; overlapping ones have one role, ``test`` if one of them must have it."""
    roles: dict[str, Split] = {}
    free: dict[str, list[str]] = {}
    for group in _overlapping(blocks):
        found = (larger.find_largest(b.span.contig, np.array([b.span.start]), np.array([b.span.end]))[0] for b in group)
        names = [block.id for block in group]
        decided = [interval.role for interval in found if interval is not None]
        if decided:
            roles |= dict.fromkeys(names, strictest(*decided, *(kept[name] for name in names if name in kept)))
        else:
            free[names[0]] = names
    for first, role in policy.divide(free).items():
        before = [kept[name] for name in free[first] if name in kept]
        roles |= dict.fromkeys(free[first], strictest(*before) if before else role)
    reasons = {True: IntervalReason.PHASED_BLOCK, False: IntervalReason.PROXIMITY_BLOCK}
    return [
        HeldInterval(Holdout.HAPLOTYPES, roles[b.id], unit=b.id, name=b.id, reason=reasons[b.phased], **asdict(b.span))
        for b in blocks
    ]


def _overlapping(blocks: Sequence[HaplotypeBlock]) -> Iterator[list[HaplotypeBlock]]:
    """Yield the blocks of each run of overlapping blocks, sorted by span."""
    run: list[HaplotypeBlock] = []
    for block in sorted(blocks, key=lambda b: (b.span.contig, b.span.start, b.span.end, b.id)):
        last = max((each.span.end for each in run), default=0)
        if run and (block.span.contig != run[0].span.contig or block.span.start >= last):
            yield run
            run = []
        run.append(block)
    if run:
        yield run


def keep_intervals(own: Sequence[HeldInterval], earlier: pa.Table, holdout: Holdout) -> list[HeldInterval]:
    """Return the earlier intervals (``HOLDOUT_INTERVALS``) of a holdout of genes or blocks that none of it covers."""
    covering = defaultdict[str, list[HeldInterval]](list)
    for each in own:
        covering[each.contig].append(each)
    return [
        HeldInterval(**row | {"holdout": holdout, "role": Split(row["role"]), "reason": IntervalReason.KEPT})
        for row in earlier.filter(pc.equal(earlier["holdout"], str(holdout))).to_pylist()
        if not any(each.start <= row["start"] and row["end"] <= each.end for each in covering[row["contig"]])
    ]


def _choose_components(policy: HoldoutPolicy, components: GeneComponents, kept: Collection[str]) -> list[GeneComponent]:
    if policy.clinvar_genes is not None:
        named = components.named(policy.clinvar_genes)
        return [component for i, component in enumerate(components) if i in named or component.id in kept]
    draws = {component.id: policy.draw("gene", component.id) for component in components}
    limit = policy.clinvar_gene_fraction * 2**64
    # A share above 0 holds out at least one.
    if draws and limit:
        limit = max(limit, min(draws.values()) + 1)
    return [component for component in components if draws[component.id] < limit or component.id in kept]
