"""Build the six holdout tables and their counts. Not here: comparison of sequences (``sources.similarity``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import (
    EVALUATION,
    GRCH38,
    NO_INTERVALS,
    PROFILES,
    ContigSet,
    Holdout,
    WindowProfile,
    meets,
)
from genolewm_assets.holdouts.alleles import count_new_labels, list_in_genes, list_in_intervals, list_newly_labelled
from genolewm_assets.holdouts.corpus import CONCLUSIVE_SHARE, CorpusRule, assembled_shares
from genolewm_assets.holdouts.gene_components import GeneComponents, find_gene_components
from genolewm_assets.holdouts.haplotype_blocks import (
    Blocks,
    HaplotypeBlock,
    choose_blocks,
    find_blocks,
    list_haplotypes,
)
from genolewm_assets.holdouts.held_intervals import (
    HeldIntervals,
    hold_blocks,
    hold_contigs,
    hold_genes,
    keep_intervals,
    kept_components,
    merge_intervals,
    settle_roles,
)
from genolewm_assets.holdouts.phased import PhasedGenotypes
from genolewm_assets.holdouts.policy import HAPLOTYPE_TOLERANCE, HoldoutPolicy
from genolewm_assets.holdouts.schema import (
    HOLDOUT_ALLELES,
    HOLDOUT_COMPARED,
    HOLDOUT_CORPUS,
    ORIGINS,
    AlleleReason,
    CorpusReason,
    VariantOrigin,
)
from genolewm_assets.holdouts.sides import NOTHING_BEFORE, EarlierSides, count_moves, keep_alleles, strictest
from genolewm_assets.holdouts.similar import (
    BY_REPEATS,
    Compared,
    Held,
    Kept,
    Packed,
    PieceQueries,
    SimilaritySearch,
    corpus_queries,
    is_first,
    list_similar,
    reference_queries,
    similar_corpus_rows,
)
from genolewm_assets.store.tables import TableSchema, give_memory_back, mapped_table
from genolewm_assets.variants import Int64s


@dataclass(frozen=True, slots=True)
class SequenceInputs:
    """What is compared with held-out sequence, and how.

    ``bases`` returns the packed bases of all windows of a contig or piece, and ``corpus`` the corpus windows of each
    piece with ``similar.SEQUENCE_COLUMNS``. ``kept``: what an earlier release found.
    """

    search: SimilaritySearch
    bases: Callable[[str], Packed]
    corpus: Callable[[], Iterable[tuple[str, pa.Table]]]
    kept: Kept | None = None


@dataclass(frozen=True, slots=True)
class HoldoutInputs:
    """Inputs of the holdouts.

    Attributes
    ----------
    contigs
        Contigs of the genome.
    genome
        Schema ``GENOME_CONTIGS``.
    windows
        Window index by linear contig; columns start and end are read. Alleles of other contigs are not used.
    gnomad
        Common alleles by contig; the columns of ``ALLELE_KEY`` are read.
    clinvar
        Alleles of the package's ClinVar release by contig; the columns ``alleles.CLINVAR_COLUMNS`` are read.
    clinvar_earlier
        Alleles of the earlier release of the temporal holdout by contig, with the same columns; None without a temporal
        holdout.
    corpus
        Tables or batches of corpus windows, the same in every iteration; the columns ``corpus.CORPUS_COLUMNS`` are
        read.
    profile
        Size and margin of the windows.
    phased
        Phased genotypes of the alleles of ``gnomad`` by contig. On contigs without an entry, blocks are formed by
        proximity.
    sequences
        Windows to compare with held-out sequence; None: windows are held out by place and by allele only.
    before
        What an earlier release of the root holds out; it stays held out.
    scratch
        Folder of nameless files with the largest tables; None: the system's for temporary files.
    """

    contigs: ContigSet
    genome: pa.Table
    windows: Mapping[str, pa.Table]
    gnomad: Mapping[str, pa.Table]
    clinvar: Mapping[str, pa.Table]
    clinvar_earlier: Mapping[str, pa.Table] | None = None
    corpus: Iterable[pa.Table] = ()
    profile: WindowProfile = PROFILES["default"]
    phased: Mapping[str, PhasedGenotypes] = field(default_factory=dict)
    sequences: SequenceInputs | None = None
    before: EarlierSides = NOTHING_BEFORE
    scratch: Path | None = None

    def footprints(self) -> dict[str, tuple[Int64s, Int64s]]:
        """Return starts and ends of all footprints by contig, each int64, shape (n_windows,), 0-based half-open."""
        return {
            contig: (table["start"].to_numpy(), table["end"].to_numpy() + self.profile.margin_bp)
            for contig, table in self.windows.items()
        }

    def on_windows(self, tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        """Return those tables whose contig has windows, by contig; each is read whenever it is asked for."""
        return _OnContigs(tables, self.windows)


class _OnContigs(Mapping[str, pa.Table]):
    """Those of some tables whose contig is one of others."""

    def __init__(self, tables: Mapping[str, pa.Table], contigs: Collection[str]) -> None:
        self._tables, self._contigs = tables, [contig for contig in tables if contig in contigs]

    def __getitem__(self, contig: str) -> pa.Table:
        if contig not in self._contigs:
            raise KeyError(contig)
        return self._tables[contig]

    def __iter__(self) -> Iterator[str]:
        return iter(self._contigs)

    def __len__(self) -> int:
        return len(self._contigs)


@dataclass(frozen=True, slots=True)
class HoldoutTables:
    """The six holdout tables, each sorted by its key, and their counts."""

    intervals: pa.Table
    alleles: pa.Table
    corpus: pa.Table
    similar: pa.Table
    compared: pa.Table
    haplotypes: pa.Table
    counts: Mapping[str, int]


def build_holdouts(inputs: HoldoutInputs, policy: HoldoutPolicy) -> HoldoutTables:
    """Build the holdout tables.

    Raises
    ------
    UnknownContigError
        If the policy names a contig that neither the genome nor GRCh38 has.
    ConfigurationError
        If no ClinVar allele names a gene of the policy, or the policy has a temporal holdout and the inputs lack the
        earlier release.
    """
    if policy.temporal is not None and inputs.clinvar_earlier is None:
        raise ConfigurationError(
            "holdouts.temporal", "the earlier release is missing", expected=f"ClinVar {policy.temporal[0]}", got="-"
        )
    policy = policy.canonical(inputs.contigs)
    clinvar = inputs.on_windows(inputs.clinvar)
    earlier = None if policy.temporal is None else inputs.on_windows(inputs.clinvar_earlier or {})
    footprint_bp = inputs.profile.window_bp + inputs.profile.margin_bp
    components = find_gene_components(chain(clinvar.values(), (earlier or {}).values()), reach_bp=footprint_bp)
    counts = Counter({"gene_components": len(components), f"temporal.{policy.temporal_rule}": 1})
    blocks, own_blocks = _choose_blocks(inputs, policy, counts)
    held_intervals = _hold_intervals(inputs, policy, components, blocks)
    held = held_intervals.merged()
    shares = assembled_shares(inputs.genome, sorted({contig for level in held.values() for contig in level}))
    counts.update({f"assembled_per_million.{contig}": int(share * 1e6) for contig, share in shares.items()})
    inconclusive = {contig for contig, share in shares.items() if share < CONCLUSIVE_SHARE}
    rule = CorpusRule(held, inconclusive, inputs.profile.margin_bp)
    similar, compared = _find_similar(inputs, held_intervals, rule, counts)
    listed = rule.list_excluded(_counted(inputs.corpus, counts))
    corpus = _sorted(chain(listed, [similar_corpus_rows(similar)]), HOLDOUT_CORPUS, inputs.scratch)
    intervals = held_intervals.to_table()
    give_memory_back()
    alleles = _sorted(_list_alleles(inputs, held_intervals, components, policy), HOLDOUT_ALLELES, inputs.scratch)
    if earlier is not None:
        counts.update(count_new_labels(clinvar, earlier))
        give_memory_back()
    if inputs.before.release:
        alone = _hold_intervals(replace(inputs, before=NOTHING_BEFORE), policy, components, own_blocks)
        counts.update(count_moves(_list_clinvar(clinvar, alone, components, policy), clinvar, inputs.before))
        give_memory_back()
    counts.update(count_windows(intervals, inputs.footprints()))
    counts.update(count_rows(intervals, alleles, corpus))
    of_blocks = {b.unit: b.role for contig in inputs.windows for b in held_intervals.of(Holdout.HAPLOTYPES, contig)}
    haplotypes = list_haplotypes(blocks, of_blocks, inputs.gnomad, inputs.phased)
    return HoldoutTables(intervals, alleles, corpus, similar, compared, haplotypes, dict(sorted(counts.items())))


def _choose_blocks(
    inputs: HoldoutInputs, policy: HoldoutPolicy, counts: Counter[str]
) -> tuple[list[HaplotypeBlock], list[HaplotypeBlock]]:
    """Return the haplotype blocks to hold out, and those if no earlier release had held out any.

    All blocks are counted, and the common alleles with phased genotypes.
    """
    blocks: list[Blocks] = []
    for contig, table in inputs.on_windows(inputs.gnomad).items():
        carried = inputs.phased.get(contig)
        known = 0 if carried is None else int(np.count_nonzero(carried.known))
        counts.update({"common_alleles.phased": known, "common_alleles.not_phased": table.num_rows - known})
        blocks.append(find_blocks(table, link_bp=policy.link_bp, max_block_bp=policy.max_block_bp, carried=carried))
    choose = partial(
        choose_blocks,
        blocks,
        partial(policy.draw, "block"),
        inputs.footprints(),
        fraction=policy.haplotype_fraction,
        tolerance=HAPLOTYPE_TOLERANCE,
        max_blocks=policy.haplotype_max_blocks,
    )
    chosen, exhausted = choose(first=inputs.before.of_units())
    own = choose()[0] if inputs.before.release else chosen
    n_blocks = sum(map(len, blocks))
    counts.update(
        {
            "haplotype_blocks": n_blocks,
            "haplotype_blocks.phased": sum(int(np.count_nonzero(each.phased)) for each in blocks),
            "haplotype_blocks.held_out": len(chosen),
            "haplotype_blocks.at_most": int(policy.haplotype_max_blocks * n_blocks),
            "haplotype_blocks.used_up": int(exhausted),
        }
    )
    return chosen, own


def _hold_intervals(
    inputs: HoldoutInputs, policy: HoldoutPolicy, components: GeneComponents, blocks: Sequence[HaplotypeBlock]
) -> HeldIntervals:
    """Return all held-out intervals."""
    lengths = {contig.name: contig.length for contigs in (GRCH38, inputs.contigs) for contig in contigs}
    before, of_units = inputs.before, inputs.before.of_units()
    kept = kept_components(components, before)
    known = of_units | kept
    contigs = hold_contigs(policy, lengths, {name: each["start"].to_numpy() for name, each in inputs.windows.items()})
    of_contigs, window_bp = HeldIntervals(contigs), inputs.profile.window_bp
    genes = hold_genes(policy, components, lengths, window_bp, contigs=of_contigs, kept=kept, known=known)
    genes += keep_intervals(genes, before.intervals, Holdout.CLINVAR)
    # One that meets a block has the block's role, or its own from before if that is stricter.
    decided = {row.unit: strictest(row.role, known[row.unit]) for row in genes if row.unit in known}
    larger = [*contigs, *settle_roles(genes, decided)]
    own = hold_blocks(policy, blocks, HeldIntervals(larger), of_units)
    own += keep_intervals(own, before.intervals, Holdout.HAPLOTYPES)
    # Blocks have the role of what they lie in by now, which one from before must not take away.
    return HeldIntervals([*larger, *settle_roles(own, {})])


def _list_alleles(
    inputs: HoldoutInputs, intervals: HeldIntervals, components: GeneComponents, policy: HoldoutPolicy
) -> Iterator[pa.Table]:
    """Yield the alleles that are held out now, and those that an earlier release held out."""
    clinvar = inputs.on_windows(inputs.clinvar)
    parts = chain(_list_gnomad(inputs, intervals), _list_clinvar(clinvar, intervals, components, policy))
    if policy.temporal is not None:
        earlier, roles = inputs.on_windows(inputs.clinvar_earlier or {}), inputs.before.of_units()
        parts = chain(parts, [list_newly_labelled(clinvar, earlier, intervals, components, policy, kept=roles)])
    listed = mapped_table(parts, HOLDOUT_ALLELES.arrow, inputs.scratch)
    give_memory_back()
    yield from keep_alleles(listed, clinvar, inputs.before, intervals.to_table())


def _sorted(tables: Iterable[pa.Table], schema: TableSchema, scratch: Path | None) -> pa.Table:
    """Sort rows by their key, those with one value of its first column at a time, so that few are in memory."""
    rows = mapped_table(tables, schema.arrow, scratch)

    def parts() -> Iterator[pa.Table]:
        for value in sorted(pc.unique(rows[schema.key[0]]).to_pylist()):
            ours = rows.filter(pc.equal(rows[schema.key[0]], value)).combine_chunks()
            yield ours.sort_by([(name, "ascending") for name in schema.key])
            give_memory_back()

    return mapped_table(parts(), schema.arrow, scratch)


def _list_gnomad(inputs: HoldoutInputs, intervals: HeldIntervals) -> Iterator[pa.Table]:
    """Yield the alleles of gnomAD in held-out intervals, schema ``HOLDOUT_ALLELES``."""
    for contig, table in inputs.on_windows(inputs.gnomad).items():
        for holdout in (Holdout.CHR, Holdout.CLINVAR, Holdout.HAPLOTYPES):
            yield list_in_intervals(table, VariantOrigin.GNOMAD, contig, holdout, intervals)


def _list_clinvar(
    clinvar: Mapping[str, pa.Table], intervals: HeldIntervals, components: GeneComponents, policy: HoldoutPolicy
) -> Iterator[pa.Table]:
    """Yield the alleles of ClinVar, of any class, in held-out intervals, schema ``HOLDOUT_ALLELES``."""
    for contig, table in clinvar.items():
        yield list_in_genes(table, contig, intervals, components, min_stars=policy.min_stars)
        for holdout in (Holdout.CHR, Holdout.HAPLOTYPES):
            yield list_in_intervals(table, VariantOrigin.CLINVAR, contig, holdout, intervals)


def _find_similar(
    inputs: HoldoutInputs, intervals: HeldIntervals, rule: CorpusRule, counts: Counter[str]
) -> tuple[pa.Table, pa.Table]:
    """List windows, not excluded by place, that are similar to held-out sequence, and what they share; count them."""
    given, held, margin_bp = inputs.sequences, merge_intervals(intervals.to_table()), inputs.profile.margin_bp

    def queries(given: SequenceInputs) -> Iterator[PieceQueries]:
        yield from reference_queries(inputs.windows, given.bases, held, margin_bp=margin_bp)
        yield from corpus_queries(given.corpus(), given.bases, rule.excludes, margin_bp=margin_bp)

    none = HOLDOUT_COMPARED.empty()
    found = Compared(none, none.append_column("reason", pa.array([], pa.string())), Counter())
    if given is not None:
        # A window that is compared now must have been compared then.
        kept = given.kept if given.kept and _holds(held, given.kept.held) else None
        found = given.search(held, queries(given), kept)
    similar, reasons = list_similar(found.similar, intervals.merged())
    counts.update(reasons)
    counts.update({f"similar.{origin}.{BY_REPEATS}": found.by_repeats[origin] for origin in ORIGINS})
    return similar, found.compared


def _holds(held: Held, before: Held) -> bool:
    """Tell whether everything that was held out before is held out now."""
    covered = (held.get(contig, NO_INTERVALS).overlap_bases(then) == then.size for contig, then in before.items())
    return all(bool(each.all()) for each in covered)


def _counted(corpus: Iterable[pa.Table], counts: Counter[str]) -> Iterator[pa.Table]:
    for table in corpus:
        counts["corpus_windows"] += table.num_rows
        yield table


def count_windows(intervals: pa.Table, footprints: Mapping[str, tuple[Int64s, Int64s]]) -> Counter[str]:
    """Count the windows that the intervals of each holdout, and of each of its roles, exclude from training."""
    counts: Counter[str] = Counter()
    for holdout in Holdout:
        ours = intervals.filter(pc.equal(intervals["holdout"], holdout))
        counts[f"windows.{holdout}"] = _count_overlapping(ours, footprints)
        for role in EVALUATION:
            with_role = ours.filter(pc.equal(ours["role"], role))
            counts[f"windows.{holdout}.{role}"] = _count_overlapping(with_role, footprints)
    counts["windows"] = sum(len(start) for start, _ in footprints.values())
    counts["windows.held_out"] = _count_overlapping(intervals, footprints)
    return counts


def count_rows(intervals: pa.Table, alleles: pa.Table, corpus: pa.Table) -> Counter[str]:
    """Count units, alleles and corpus windows by holdout and role or reason, zeros included."""
    counts: Counter[str] = Counter()
    for holdout in Holdout:
        for role in EVALUATION:
            ours = pc.and_(pc.equal(intervals["holdout"], holdout), pc.equal(intervals["role"], role))
            counts[f"units.{holdout}.{role}"] = len(pc.unique(intervals["unit"].filter(ours)))
        for noun, table, reasons in (("alleles", alleles, AlleleReason), ("corpus_windows", corpus, CorpusReason)):
            found = pc.value_counts(table["reason"].filter(pc.equal(table["holdout"], holdout))).to_pylist()
            by_reason = {each["values"]: each["counts"] for each in found}
            counts.update({f"{noun}.{holdout}.{reason}": by_reason.get(reason, 0) for reason in reasons})
    counts["corpus_windows.held_out"] = int(np.count_nonzero(is_first(corpus, HOLDOUT_CORPUS.key[:-1])))
    return counts


def _count_overlapping(intervals: pa.Table, footprints: Mapping[str, tuple[Int64s, Int64s]]) -> int:
    merged = merge_intervals(intervals)
    return sum(
        int(np.count_nonzero(meets(merged.get(contig, NO_INTERVALS), start, end)))
        for contig, (start, end) in footprints.items()
    )
