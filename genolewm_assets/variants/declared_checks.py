"""Checks of variant shards: what each means, and what to do if it fails. Their code is in ``checks``."""

from __future__ import annotations

from genolewm_assets.store.artefacts import Check
from genolewm_assets.store.tables import SCHEMA_AS_DECLARED

ALLELES_SORTED = Check(
    "alleles_sorted_and_unique", "The alleles of each contig are sorted by position, REF and ALT; none occurs twice."
)
REF_AGREES = Check(
    "ref_agrees_with_genome",
    "Every base of every REF equals the pinned reference genome.",
    "The genome is another one than the alleles were normalised on. Materialise reference/genome, then this asset; if "
    "it fails again, report the rows.",
)
RECORDS_ACCOUNTED_FOR = Check(
    "every_record_accounted_for",
    "The alleles or records of the source, counted by separate code, equal those used plus those rejected, skipped or "
    "filtered for each reason; each reject has its row.",
    "Records were lost or counted twice, for example because the file changed while it was read. Materialise again; "
    "if the same rows come back, report them with the name and MD5 of the source.",
)

_SHARED = (
    SCHEMA_AS_DECLARED,
    ALLELES_SORTED,
    Check(
        "alleles_in_normal_form",
        "REF and ALT of every allele are upper-case ACGT, differ, are trimmed and left-aligned.",
    ),
    REF_AGREES,
)
_ACCOUNT = (
    Check(
        "ref_mismatches_rare",
        "The share of alleles whose REF does not fit the reference is within the catalogue's bound; a larger share "
        "indicates another assembly.",
        "The file is most likely of another assembly. Compare ##reference and ##contig in its header with the genome "
        "of the catalogue, and look up the rows by the line numbers of the decompressed source file: at these "
        "positions the reference has the bases in the column expected. Name the file of the right assembly in the "
        "catalogue. If the file is right and merely has more such records, raise max_ref_mismatch_fraction of its "
        "section.",
    ),
    RECORDS_ACCOUNTED_FOR,
)
#: Checks of the rows of a gnomAD shard that a ClinVar shard has not.
OWN_GNOMAD_CHECKS = (
    Check(
        "frequencies_consistent",
        "All frequencies are between 0 and 1, AC is between 0 and AN, and AF equals AC / AN within the printed digits.",
        "The source states frequencies that contradict its counts. Look up the rows in the VCF; if it says the same, "
        "take the file of another release, or report the fault to its publisher. Where AN is that of another record "
        "of the position, records were joined, as bcftools norm -m +any does: take the published file.",
    ),
    Check(
        "kept_alleles_pass_filters",
        "Every kept allele has an accepted FILTER value and at least the minimum AF; circular contigs are exempt.",
    ),
)
#: Checks of a gnomAD shard, in order; ``ref_agrees_with_genome`` is absent without a reference.
GNOMAD_CHECKS = (
    *_SHARED,
    *OWN_GNOMAD_CHECKS,
    *_ACCOUNT,
    Check(
        "filters_spare_most",
        "No filter removes over half of the alleles that passed the bound of AF, where these are 20 or more.",
        "Look at the INFO fields AN in the VCF: many common alleles have few genotypes. Where that is how the file "
        "was made, lower gnomad.min_an_fraction in the catalogue, or --min-an-fraction.",
    ),
)
#: Checks of a ClinVar shard, in order; ``ref_agrees_with_genome`` is absent without a reference.
CLINVAR_CHECKS = (
    *_SHARED,
    Check(
        "labels_follow_clnsig",
        "No class contradicts the words of ClinVar's CLNSIG text, stars are 0 to 4, and each gene symbol has a gene "
        "id.",
        "ClinVar uses words for which the rules of the classes are not made. Compare the column clnsig of the rows "
        "with ClinVar's page of the variant, and report the new words; the former release stays in use.",
    ),
    *_ACCOUNT,
)

#: Blocks nothing.
CONTIGS_KNOWN = Check(
    "contigs_known",
    "At most 1 % of the records of a VCF are on contigs other than chromosomes that the catalogue lacks, such as "
    "scaffolds. Of a file with more, the five commonest names are told. Blocks nothing.",
    "Where a name of the rows means a contig of the catalogue, add it under the contig's aliases in genome.contigs, "
    "and materialise again. Nothing needs doing if these contigs are meant to be left out.",
)
