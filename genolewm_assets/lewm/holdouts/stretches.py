"""Held-out stretches of contigs: whole contigs, gene components, blocks, and the side that each of them is on.

A stretch that meets one held out for a larger reason takes its side, so that validation holds nothing of the test:
contigs go before genes, genes before blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from genolewm_assets.genome import IntervalArray, Split
from genolewm_assets.lewm.holdouts.gene_components import GeneComponent, GeneComponents
from genolewm_assets.lewm.holdouts.haplotype_blocks import HaplotypeBlock
from genolewm_assets.lewm.holdouts.overlap import NO_INTERVALS, first_met
from genolewm_assets.lewm.holdouts.policy import HoldoutPolicy
from genolewm_assets.lewm.holdouts.schema import HOLDOUT_INTERVALS, Holdout, IntervalReason
from genolewm_assets.variants import Int64s


@dataclass(frozen=True, slots=True)
class HeldStretch:
    """A row of the interval table; ``start``, ``end`` are 0-based half-open."""

    holdout: Holdout
    role: Split
    contig: str
    start: int
    end: int
    unit: str
    name: str
    reason: IntervalReason


class HeldStretches:
    """Stretches by holdout and contig."""

    def __init__(self, stretches: Iterable[HeldStretch] = ()) -> None:
        self._rows: dict[tuple[Holdout, str], list[HeldStretch]] = {}
        for row in sorted(stretches, key=lambda row: (row.holdout, row.contig, row.start, row.end, row.unit)):
            self._rows.setdefault((row.holdout, row.contig), []).append(row)
        self._intervals = {
            key: IntervalArray.from_unsorted([row.start for row in rows], [row.end for row in rows])
            for key, rows in self._rows.items()
        }

    def of(self, holdout: Holdout, contig: str) -> list[HeldStretch]:
        """Return the stretches of one holdout on one contig, sorted by start."""
        return self._rows.get((holdout, contig), [])

    def find(self, holdout: Holdout, contig: str, start: Int64s, end: Int64s) -> Int64s:
        """Return which of :meth:`of` each ``[start, end)`` meets first: int64, shape (len(start),); -1 for none."""
        return first_met(self._intervals.get((holdout, contig), NO_INTERVALS), start, end)

    def find_largest(self, contig: str, start: Int64s, end: Int64s) -> list[HeldStretch | None]:
        """Return the stretch of the largest reason that each ``[start, end)`` meets: contig, else gene, else block."""
        found: list[HeldStretch | None] = [None] * len(start)
        for holdout in (Holdout.HAPLOTYPES, Holdout.CLINVAR, Holdout.CHR):
            met = self.find(holdout, contig, start, end)
            for row in np.flatnonzero(met >= 0).tolist():
                found[row] = self.of(holdout, contig)[met[row]]
        return found

    def merged(self) -> dict[Holdout, dict[str, IntervalArray]]:
        """Return the union of the stretches by holdout and contig."""
        union: dict[Holdout, dict[str, IntervalArray]] = {}
        for (holdout, contig), intervals in self._intervals.items():
            union.setdefault(holdout, {})[contig] = intervals.merge()
        return union

    def to_table(self) -> pa.Table:
        """Return the rows in the schema ``HOLDOUT_INTERVALS``, sorted by its key."""
        rows = [asdict(row) for stretches in self._rows.values() for row in stretches]
        keys = [(name, "ascending") for name in HOLDOUT_INTERVALS.key]
        return pa.Table.from_pylist(rows, schema=HOLDOUT_INTERVALS.arrow).sort_by(keys).combine_chunks()


def hold_contigs(policy: HoldoutPolicy, lengths: Mapping[str, int]) -> list[HeldStretch]:
    """Hold out whole contigs; ``lengths`` in bases."""
    return [
        HeldStretch(Holdout.CHR, role, contig, 0, lengths[contig], contig, contig, IntervalReason.CONTIG)
        for contig, role in policy.contig_roles().items()
    ]


def hold_genes(
    policy: HoldoutPolicy, components: GeneComponents, lengths: Mapping[str, int], window_bp: int
) -> list[HeldStretch]:
    """Hold out gene components: the named ones or, by hash, a share of all.

    Parameters
    ----------
    window_bp
        Bases by which every span is widened on either side: a gene reaches beyond its outermost alleles.

    Notes
    -----
    Where chance takes no component, the one that came nearest is taken.
    """
    chosen = _choose_components(policy, components)
    by_contig = policy.contig_roles()
    roles: dict[str, Split] = {}
    for component in chosen:
        for span in component.spans:
            if span.contig in by_contig:
                roles.setdefault(component.id, by_contig[span.contig])
    roles |= policy.divide(component.id for component in chosen if component.id not in roles)
    return [
        HeldStretch(
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


def hold_blocks(policy: HoldoutPolicy, blocks: Sequence[HaplotypeBlock], larger: HeldStretches) -> list[HeldStretch]:
    """Hold out chosen blocks; ``larger`` are the contigs and genes whose side they take."""
    met: dict[str, HeldStretch | None] = {}
    for block in blocks:
        span = block.span
        (met[block.id],) = larger.find_largest(span.contig, np.array([span.start]), np.array([span.end]))
    free = policy.divide(name for name, stretch in met.items() if stretch is None)
    roles = {name: free[name] if stretch is None else stretch.role for name, stretch in met.items()}
    return [
        HeldStretch(
            Holdout.HAPLOTYPES,
            roles[block.id],
            block.span.contig,
            block.span.start,
            block.span.end,
            block.id,
            block.id,
            IntervalReason.PHASED_BLOCK if block.phased else IntervalReason.PROXIMITY_BLOCK,
        )
        for block in blocks
    ]


def _choose_components(policy: HoldoutPolicy, components: GeneComponents) -> list[GeneComponent]:
    if policy.clinvar_genes is not None:
        return [components[i] for i in sorted(components.named(policy.clinvar_genes))]
    draws = {component.id: policy.draw("gene", component.id) for component in components}
    limit = policy.clinvar_gene_fraction * 2**64
    if draws and limit:
        limit = max(limit, min(draws.values()) + 1)
    return [component for component in components if draws[component.id] < limit]
