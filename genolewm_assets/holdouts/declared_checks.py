"""Checks of the holdout tables: what each means, and what to do if it fails. Their code is in ``checks``."""

from __future__ import annotations

from genolewm_assets.store.artefacts import Check
from genolewm_assets.store.tables import SCHEMA_AS_DECLARED

#: The checks, in the order of :func:`~genolewm_assets.holdouts.checks.check_holdouts`.
HOLDOUT_CHECKS = (
    SCHEMA_AS_DECLARED,
    Check("rows_sorted_and_unique", "The rows of each table are sorted by key, and no key occurs twice."),
    Check(
        "units_have_one_role",
        "No contig, gene component or haplotype block is in both validation and test, and two of one holdout that "
        "share bases are in the same one.",
        "The policy gives a unit of the rows to validation and to test. See that no contig is in both lists of the "
        "section holdouts, and no gene in both; otherwise report the rows.",
    ),
    Check(
        "contigs_held_out_whole",
        "Every contig that the policy holds out is held out from its first base to its last.",
        "See that the contigs in holdouts.contigs_validation and holdouts.contigs_test are names of the catalogue's "
        "genome, and materialise again; otherwise report the rows.",
    ),
    Check(
        "alleles_in_stretches_named",
        "For every holdout, source and contig, the table lists as many alleles as overlap the held-out intervals.",
    ),
    Check(
        "similar_windows_excluded",
        "Every corpus window that is similar to held-out sequence, other than by repeats, is excluded; every place "
        "that a window is similar to is held out.",
    ),
    Check(
        "corpus_windows_in_doubt_named",
        "The corpus windows listed by place or in doubt are those that a second pass over all corpus windows finds: "
        "they overlap a held-out interval as placed or as stated or, while a held-out contig is inconclusive, may be "
        "human and have no confirmed coordinates.",
    ),
    Check(
        "haplotype_share_in_bounds",
        "Haplotype blocks remove the share of windows that the policy requests, within 0.3 percentage points, or less "
        "if no admissible block is left.",
        "The blocks do not add up to the share that is asked for. Choose another holdouts.haplotype_fraction, or a "
        "smaller holdouts.max_block_bp, in the catalogue.",
    ),
    Check(
        "haplotypes_as_carried",
        "The haplotypes of every phased block, and the number of haplotypes that carry each, are those of a second "
        "count of the genotypes; every held-out block has its haplotypes.",
        "The phased VCF changed since it was read, or the code is wrong. Materialise again; report rows that come "
        "back.",
    ),
    Check(
        "evaluated_stays_held_out",
        "Every interval and allele that the earlier package of the root held out is held out; what was test is test.",
    ),
    Check(
        "moves_in_bounds",
        "Of the alleles of this release and of that of the earlier package, at most 2 % (holdouts.max_moved_fraction) "
        "would change their side by this release alone, and at most as many changed their genes.",
        "See genes_changed in clinvar/changes: a damaged GENEINFO names other genes. Wait for a corrected release, or "
        "raise holdouts.max_moved_fraction in the catalogue if the changes are meant.",
    ),
)
