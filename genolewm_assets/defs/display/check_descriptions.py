"""Descriptions of the checks: one sentence each, which the UI shows with the check's result."""

from __future__ import annotations

from collections.abc import Mapping

_GENERAL: Mapping[str, str] = {
    "inputs_accepted": (
        "The sources could be read, and every upstream input is published, passed its checks and is unaltered."
    ),
    "built_from_current_inputs": (
        "A build of now would read what was read: the source files, the code version, the recipe, and the published "
        "inputs are the same. Blocks nothing: what is published was right when it was built."
    ),
    "newest_release_built": (
        "The newest ClinVar release that the listing offers is built, and its date is not further back than the "
        "catalogue allows. Building an older release again changes nothing here. Blocks nothing."
    ),
    "bytes_match_manifest": "Every published file has the size and the SHA-256 that its manifest states.",
    "checksum_matches_published": (
        "Every downloaded source file has the MD5 that its publisher or the catalogue states, if one is stated."
    ),
    "schema_as_declared": "Every table has the declared columns, types and nullability.",
    "alleles_sorted_and_unique": "The alleles of each contig are sorted by position, REF and ALT; none occurs twice.",
    "window_hashes_right": "The SHA-256 and the id of every row equal those computed again from its window.",
    "windows_hold_only_acgt": "Every window consists of the bases A, C, G and T only.",
}

_SHARDS: Mapping[str, str] = {
    "every_record_accounted_for": (
        "The alleles or records of the source, counted by separate code, equal those used plus those rejected, skipped "
        "or filtered for each reason; each reject has its row."
    ),
    "alleles_in_normal_form": "REF and ALT of every allele are upper-case ACGT, differ, are trimmed and left-aligned.",
    "frequencies_consistent": (
        "All frequencies are between 0 and 1, AC is between 0 and AN, and AF equals AC / AN within the printed digits."
    ),
    "contigs_known": (
        "At most 1 % of the records of a VCF are on contigs other than chromosomes that the catalogue lacks, such as "
        "scaffolds. Of a file with more, the five commonest names are told. Blocks nothing."
    ),
    "filters_spare_most": (
        "No filter removes over half of the alleles that passed the bound of AF, where these are 20 or more."
    ),
    "kept_alleles_pass_filters": (
        "Every kept allele has an accepted FILTER value and at least the minimum AF; circular contigs are exempt."
    ),
    "labels_follow_clnsig": (
        "No class contradicts the words of ClinVar's CLNSIG text, stars are 0 to 4, and each gene symbol has a gene id."
    ),
    "ref_agrees_with_genome": "Every base of every REF equals the pinned reference genome.",
    "ref_mismatches_rare": (
        "The share of alleles whose REF does not fit the reference is within the catalogue's bound; a larger share "
        "indicates another assembly."
    ),
    "release_key_equals_header_date": "The date in the header of the VCF is the date of the release's key.",
}

_CHANGES: Mapping[str, str] = {
    "shards_hold_no_allele_twice": "Both releases are sorted and contain no allele twice, so alleles can be paired.",
    "flags_agree_with_columns": (
        "Every flag is set exactly if its two values differ, and only added and removed alleles lack a side."
    ),
    "classes_change_with_their_texts": "An allele's class changed only if ClinVar's CLNSIG text changed too.",
    "changes_lead_to_the_release": (
        "Applying the changes to the predecessor gives the release, and undoing them gives the predecessor."
    ),
    "changes_add_up": "The counts equal the written rows and, for each class, the counts of both releases.",
}

_WINDOWS: Mapping[str, str] = {
    "contigs_match_pins": "The contigs of the FASTA have the lengths and MD5s that the catalogue pins.",
    "windows_tile_contig": (
        "The contig has exactly the windows that RFC-0006 section 3.2 defines, in every run of A, C, G and T."
    ),
    "placements_hold": (
        "Every placement has the columns that its kind requires, rests on stated coordinates exactly where the bases "
        "of the reference agree with them, and is marked exact only if the reference has the same bases."
    ),
    "windows_cut_from_records": (
        "Every window and its flanks equal the same interval of the source record, and only a record that states "
        "another organism is called non-human."
    ),
    "windows_follow_tiling": "Every record has exactly the windows that the tiling rules give.",
    "faulty_records_rare": (
        "The share of rows of the source that are at fault (no id, invalid coordinates, unknown strand, ...), and are "
        "left out, is within the catalogue's bound."
    ),
}

_STATES: Mapping[str, str] = {
    "norms_plausible": "The norm of every block is within a factor of 100 of the median norm.",
    "null_edit_bounded": (
        "In up to 8 sampled windows, an edit with ALT = REF moves the pooled state by less than 2 % of the median "
        "shift that SNVs at the same places cause."
    ),
    "precision_sufficient": (
        "States of up to 256 random windows that are not computed in float32 are close to those in float32 (cosine of "
        "every block at least 0.999), and rounding makes up at most a quarter of the median shift that SNVs cause. "
        "States that fail are not published."
    ),
    "rows_equal_windows": "The cache has exactly one row of states per window.",
    "states_finite": "All blocks of a window are finite, and blocks past the end of a shorter window are NaN.",
    "states_reproducible": (
        "Up to 32 sampled windows, encoded again in another order, give the stored states within 1 % of the largest "
        "absolute value."
    ),
    "every_visit_frozen": "The store has exactly one row per visit of every frozen epoch, in the order of the visits.",
    "frozen_states_finite": "Every state of every frozen tuple, of the window and of the edited window, is finite.",
    "frozen_tuples_recomputed": (
        "Up to 4 batches, drawn again, have the stored edits, tokens and states of windows, bit for bit; their edited "
        "windows, encoded again, give the stored states within 1 % of the largest absolute value."
    ),
}

_HOLDOUTS: Mapping[str, str] = {
    "alleles_in_stretches_named": (
        "For every holdout, source and contig, the table lists as many alleles as overlap the held-out intervals."
    ),
    "similar_windows_excluded": (
        "Every corpus window that is similar to held-out sequence, other than by repeats, is excluded; every place "
        "that a window is similar to is held out."
    ),
    "corpus_windows_in_doubt_named": (
        "The corpus windows listed by place or in doubt are those that a second pass over all corpus windows finds: "
        "they overlap a held-out interval as placed or as stated or, while a held-out contig is inconclusive, may be "
        "human and have no confirmed coordinates."
    ),
    "contigs_held_out_whole": "Every contig that the policy holds out is held out from its first base to its last.",
    "haplotype_share_in_bounds": (
        "Haplotype blocks remove the share of windows that the policy requests, within 0.3 percentage points, or less "
        "if no admissible block is left."
    ),
    "haplotypes_as_carried": (
        "The haplotypes of every phased block, and the number of haplotypes that carry each, are those of a second "
        "count of the genotypes; every held-out block has its haplotypes."
    ),
    "evaluated_stays_held_out": (
        "Every interval and allele that the earlier package of the root held out is held out; what was test is test."
    ),
    "moves_in_bounds": (
        "Of the alleles of this release and of that of the earlier package, at most 2 % (holdouts.max_moved_fraction) "
        "would change their side by this release alone, and at most as many changed their genes."
    ),
    "windows_suffice_for_mix": (
        "With the windows outside the holdouts and the catalogue's mix, an epoch visits no window more often than "
        "packages.max_visits allows: `visits_bounded` of packages/split, told before states are computed. Blocks "
        "nothing."
    ),
    "rows_sorted_and_unique": "The rows of each table are sorted by key, and no key occurs twice.",
    "units_have_one_role": "No contig, gene component or haplotype block is in both validation and test.",
}

_PACKAGES: Mapping[str, str] = {
    "audit_is_conclusive": (
        "Every search of the audit had all that it needs, such as whole held-out contigs in the FASTA. Blocks nothing: "
        "a search that is not certain found no leak in what it could search."
    ),
    "bench_alleles_scored": (
        "Read from the written package, every ClinVar allele of an evaluation labelled P, LP, B or LB with the review "
        "stars of the policy is shown exactly once, or stated with the reason why no window shows it, and no label has "
        "fewer stars."
    ),
    "caches_match_windows": "Every cache key and cache row of a window refers to the states of exactly that window.",
    "counts_add_up": (
        "For every source, the windows and alleles read equal those in the training split plus those held out, and the "
        "counts equal the rows of the files."
    ),
    "labels_as_declared": (
        "Every ClinVar allele in training has the class and stars of the release that `knowledge` declares, and every "
        "one in validation and test those of the package's release."
    ),
    "held_out_contexts_right": (
        "Every held-out allele has one row with the 30 bases of the genome before and behind it, by which training "
        "refuses edits that make it in windows without an exact place."
    ),
    "mapped_form_right": (
        "The mapped form that trainers open (folder `arrays`) has every window, with its bases, place and states, and "
        "every allele that edits are drawn from or may not make, as the tables state them, read by other code."
    ),
    "mix_served": (
        "A simulated epoch of training serves the declared shares of origins of windows and of sources of edits, each "
        "within 2 percentage points."
    ),
    "no_leak_found": (
        "Code that shares nothing with the filters read the package and the FASTA, drew the training stream, and found "
        "no held-out interval, record, sequence or allele, no window of an evaluation and no wrong label."
    ),
    "planted_leaks_found": (
        "Of each kind of leak that was planted in a copy of the package, the audit found at least the stated share."
    ),
    "no_holdout_allele_in_train": (
        "The training split contains no allele that is listed as held out or overlaps a held-out interval."
    ),
    "no_holdout_corpus_row_in_train": (
        "The training split contains no corpus window that is listed as held out or may overlap a held-out interval."
    ),
    "no_holdout_window_in_train": (
        "The footprint of no reference window of the training split overlaps a held-out interval."
    ),
    "package_verifies": (
        "The latest audit of the package in use passed. Names and sizes of all its files and of its caches are as "
        "recorded; files modified since have the recorded SHA-256."
    ),
    "sequences_right": (
        "Every window has the SHA-256 of its row, consists of ACGT only and, if it is a reference window, equals the "
        "genome, flanks included."
    ),
    "splits_disjoint": (
        "No allele is in two splits, no reference window is in both validation and test, and no training window equals "
        "an evaluation window of a holdout with intervals on either strand."
    ),
    "training_alleles_present": (
        "Training windows contain a gnomAD allele and a P or LP ClinVar allele, if the sources have alleles, or the "
        "catalogue declares that they may not (`packages.without_alleles`)."
    ),
    "training_stars_sufficient": (
        "No ClinVar allele of the training split has fewer review stars than the catalogue asks for "
        "(`packages.min_training_stars`)."
    ),
    "visits_bounded": (
        "A simulated epoch visits no window more often than the catalogue allows, and visits windows of every stratum."
    ),
}

_MITO: Mapping[str, str] = {
    "differences_spell_genomes": "The reference with a genome's differences applied gives the sequence of the genome.",
    "every_genome_accounted_for": (
        "Every record of the collections has a row among the genomes or the rejects, and the counts equal these rows."
    ),
    "every_row_joined": (
        "The rows of each shard equal its joined alleles plus merged spellings, and every substitution was joined."
    ),
    "genomes_are_their_sources": "Every genome equals its source record, apart from rotation and strand.",
    "levels_within_bounds": "Every heteroplasmy level is between 0 and 1.",
    "near_copies_on_one_side": (
        "Two genomes in different splits differ at more positions than the catalogue's bound (all pairs are compared), "
        "and no haplogroup is divided if the policy keeps haplogroups together."
    ),
    "positions_are_the_references": "Every token has the reference position of its first base.",
    "rows_are_the_genomes": "Every row has the name and the split of its genome.",
    "samples_reach_genomes": (
        "Every sample of the heteroplasmy files has a genome of its name, or one that was rejected, and calls of every "
        "file count."
    ),
    "sites_agree_with_alleles": (
        "The level of every site is at least that of its substitutions, and no higher than that of its substitutions "
        "and the indels nearby."
    ),
    "tokens_spell_genomes": (
        "The decoded tokens of every genome give its sequence, and a token is unknown exactly if one of its bases is."
    ),
}

_FORENSIC: Mapping[str, str] = {
    "every_file_accounted_for": (
        "Every file of the run folder has one row: a profile of the store, a ladder or an allele report that was used, "
        "or left out with a reason."
    ),
    "annotations_reach_injections": (
        "Every line of the run's allele reports names an injection, by file or sample, and a locus of the panel."
    ),
    "size_standard_fits": (
        "In every profile the size standard has a top at the scan that the scaler gives to each fragment that was "
        "found, and no fragment is further from the smooth curve than the catalogue allows."
    ),
    "ladder_complete": (
        "Every ladder that was used has each allele of the kit's panel file, at its distance from its neighbours."
    ),
    "negative_clean": "No peak of a negative control is called.",
    "control_has_its_genotype": "Every positive control has the alleles that the panel file states of it.",
    "saturation_flagged": (
        "In every profile, peaks are flagged as off scale exactly where the file marks the detector as saturated."
    ),
}

CHECK_DESCRIPTIONS: Mapping[str, str] = {
    **_GENERAL,
    **_SHARDS,
    **_CHANGES,
    **_WINDOWS,
    **_STATES,
    **_HOLDOUTS,
    **_PACKAGES,
    **_MITO,
    **_FORENSIC,
}
