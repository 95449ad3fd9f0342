"""What is held out of training, and why: tables in, the three holdout tables and their counts out.

Not here: the rows of the splits (``package_split``). Decided by place and by allele, not by likeness of sequence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import GRCH38, PROFILES, ContigSet, WindowProfile
from genolewm_assets.lewm.holdouts.alleles import list_in_genes, list_in_stretches, list_newly_labelled
from genolewm_assets.lewm.holdouts.assembly_coverage import CONCLUSIVE_SHARE, assembled_shares
from genolewm_assets.lewm.holdouts.corpus import hold_out_corpus
from genolewm_assets.lewm.holdouts.counts import count_new_labels, count_rows, count_windows
from genolewm_assets.lewm.holdouts.gene_components import GeneComponents, find_gene_components
from genolewm_assets.lewm.holdouts.haplotype_blocks import choose_blocks, find_blocks
from genolewm_assets.lewm.holdouts.policy import HAPLOTYPE_TOLERANCE, HoldoutPolicy
from genolewm_assets.lewm.holdouts.schema import HOLDOUT_ALLELES, Holdout, VariantOrigin
from genolewm_assets.lewm.holdouts.stretches import HeldStretches, hold_blocks, hold_contigs, hold_genes
from genolewm_assets.variants import Bools, Int64s


@dataclass(frozen=True, slots=True)
class HoldoutInputs:
    """What the holdouts are made from.

    Attributes
    ----------
    contigs
        Of the genome.
    genome
        Schema ``GENOME_CONTIGS``.
    windows
        Window index by linear contig; columns start and end are read. Alleles of other contigs are not used.
    gnomad
        Common alleles by contig; the columns of ``ALLELE_KEY`` are read.
    clinvar
        Alleles of the package's release by contig; the columns ``holdout_alleles.CLINVAR_COLUMNS`` are read.
    clinvar_earlier
        The same at the earlier release of the temporal holdout.
    corpus
        Tables or batches of corpus windows; the columns ``holdout_corpus.CORPUS_COLUMNS`` are read.
    profile
        Of the windows.
    phased
        Which haplotypes carry each common allele, by contig: bool, shape (n_alleles, n_haplotypes). Blocks of a contig
        without them rest on proximity.
    """

    contigs: ContigSet
    genome: pa.Table
    windows: Mapping[str, pa.Table]
    gnomad: Mapping[str, pa.Table]
    clinvar: Mapping[str, pa.Table]
    clinvar_earlier: Mapping[str, pa.Table] | None = None
    corpus: Iterable[pa.Table] = ()
    profile: WindowProfile = PROFILES["default"]
    phased: Mapping[str, Bools] = field(default_factory=dict)

    @property
    def footprint_bp(self) -> int:
        """Bases of a window's footprint."""
        return self.profile.window_bp + self.profile.margin_bp

    def footprints(self) -> dict[str, tuple[Int64s, Int64s]]:
        """Return starts and ends of all footprints by contig, each int64, shape (n_windows,), 0-based half-open."""
        return {
            contig: (table["start"].to_numpy(), table["end"].to_numpy() + self.profile.margin_bp)
            for contig, table in self.windows.items()
        }

    def on_windows(self, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """Return the tables of contigs that have windows."""
        return {contig: table for contig, table in tables.items() if contig in self.windows}


@dataclass(frozen=True, slots=True)
class HoldoutTables:
    """What is held out: schemas ``HOLDOUT_INTERVALS``, ``HOLDOUT_ALLELES``, ``HOLDOUT_CORPUS``; and counts of it."""

    intervals: pa.Table
    alleles: pa.Table
    corpus: pa.Table
    counts: Mapping[str, int]


def build_holdouts(inputs: HoldoutInputs, policy: HoldoutPolicy) -> HoldoutTables:
    """Decide what is held out.

    Raises
    ------
    UnknownContigError
        If the policy names a contig that neither the genome nor GRCh38 has.
    ConfigurationError
        If it names a gene that ClinVar does not, or a temporal holdout without the earlier release.
    """
    if policy.temporal is not None and inputs.clinvar_earlier is None:
        raise ConfigurationError(
            "holdouts.temporal", "the earlier release is not at hand", expected=f"ClinVar {policy.temporal[0]}", got="-"
        )
    policy = policy.canonical(inputs.contigs)
    clinvar = inputs.on_windows(inputs.clinvar)
    earlier = None if policy.temporal is None else inputs.on_windows(inputs.clinvar_earlier or {})
    components = find_gene_components([*clinvar.values(), *(earlier or {}).values()], reach_bp=inputs.footprint_bp)
    counts = Counter({"gene_components": len(components)})
    stretches = _hold_stretches(inputs, policy, components, counts)
    held = stretches.merged()
    shares = assembled_shares(inputs.genome, sorted({contig for level in held.values() for contig in level}))
    counts.update({f"assembled_per_million.{contig}": int(share * 1e6) for contig, share in shares.items()})
    corpus = hold_out_corpus(
        _counted(inputs.corpus, counts),
        held,
        inconclusive={contig for contig, share in shares.items() if share < CONCLUSIVE_SHARE},
        margin_bp=inputs.profile.margin_bp,
    )
    parts = list(_list_alleles(inputs, clinvar, stretches, components, policy))
    if earlier is not None:
        parts.append(list_newly_labelled(clinvar, earlier, stretches, components, policy))
        counts.update(count_new_labels(clinvar, earlier))
    order = [(name, "ascending") for name in HOLDOUT_ALLELES.key]
    alleles = pa.concat_tables([HOLDOUT_ALLELES.empty(), *parts]).sort_by(order).combine_chunks()
    intervals = stretches.to_table()
    counts.update(count_windows(intervals, inputs.footprints()))
    counts.update(count_rows(intervals, alleles, corpus))
    return HoldoutTables(intervals, alleles, corpus, dict(sorted(counts.items())))


def _hold_stretches(
    inputs: HoldoutInputs, policy: HoldoutPolicy, components: GeneComponents, counts: Counter[str]
) -> HeldStretches:
    """Return all held-out stretches; counts the blocks that there were to choose from."""
    lengths = {contig.name: contig.length for contigs in (GRCH38, inputs.contigs) for contig in contigs}
    larger = [*hold_contigs(policy, lengths), *hold_genes(policy, components, lengths, inputs.profile.window_bp)]
    blocks = [
        block
        for contig, table in inputs.on_windows(inputs.gnomad).items()
        for block in find_blocks(
            table, link_bp=policy.link_bp, max_block_bp=policy.max_block_bp, carried=inputs.phased.get(contig)
        )
    ]
    chosen, exhausted = choose_blocks(
        blocks,
        {block.id: policy.draw("block", block.id) for block in blocks},
        inputs.footprints(),
        fraction=policy.haplotype_fraction,
        tolerance=HAPLOTYPE_TOLERANCE,
        max_blocks=policy.haplotype_max_blocks,
    )
    counts.update({"haplotype_blocks": len(blocks), "haplotype_blocks.used_up": int(exhausted)})
    return HeldStretches([*larger, *hold_blocks(policy, chosen, HeldStretches(larger))])


def _list_alleles(
    inputs: HoldoutInputs,
    clinvar: Mapping[str, pa.Table],
    stretches: HeldStretches,
    components: GeneComponents,
    policy: HoldoutPolicy,
) -> Iterator[pa.Table]:
    """Yield the alleles in held-out stretches, whatever their source and class."""
    for contig, table in inputs.on_windows(inputs.gnomad).items():
        for holdout in (Holdout.CHR, Holdout.CLINVAR, Holdout.HAPLOTYPES):
            yield list_in_stretches(table, VariantOrigin.GNOMAD, contig, holdout, stretches)
    for contig, table in clinvar.items():
        yield list_in_genes(table, contig, stretches, components, min_stars=policy.min_stars)
        for holdout in (Holdout.CHR, Holdout.HAPLOTYPES):
            yield list_in_stretches(table, VariantOrigin.CLINVAR, contig, holdout, stretches)


def _counted(corpus: Iterable[pa.Table], counts: Counter[str]) -> Iterator[pa.Table]:
    for table in corpus:
        counts["corpus_windows"] += table.num_rows
        yield table
