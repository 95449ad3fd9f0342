"""What each check guarantees, in one sentence, as the UI shows it beside the check's outcome."""

from __future__ import annotations

from collections.abc import Mapping

_GENERAL: Mapping[str, str] = {
    "inputs_accepted": "The sources could be read, and every input from upstream is published, passed and unaltered.",
    "bytes_match_manifest": "Every published file has the size and the SHA-256 that its manifest states.",
    "checksum_matches_published": "The source has the checksum that its publisher, or the catalogue, states for it.",
    "schema_as_declared": "Every table has the declared columns, types and nullability.",
    "alleles_sorted_and_unique": "Alleles stand in the order of contig and position, and none stands there twice.",
    "window_hashes_right": "Every window, hashed again, gives the SHA-256 and the id of its row.",
    "windows_hold_only_acgt": "No window holds a base other than A, C, G and T.",
}

_SHARDS: Mapping[str, str] = {
    "alleles_in_normal_form": "Every allele is upper-case ACGT, trimmed and left-aligned.",
    "every_record_accounted_for": (
        "Alleles in the source = kept + rejected + filtered, counted by another reader, and each reject has its row."
    ),
    "frequencies_consistent": "Frequencies lie within 0 and 1 and agree with AC and AN to the digits that are printed.",
    "kept_alleles_pass_filters": "Every allele that was kept passes the bounds on FILTER, AF and AN.",
    "labels_follow_clnsig": "Classes, stars and genes are those that ClinVar's published texts can mean.",
    "ref_agrees_with_genome": "Every base of every REF is the pinned reference's.",
    "ref_mismatches_rare": (
        "Alleles whose REF is not the reference's are rarer than the catalogue's bound; more mean another assembly."
    ),
    "release_key_equals_header_date": "The date in the VCF's header is that of the release's key.",
}

_CHANGES: Mapping[str, str] = {
    "shards_hold_no_allele_twice": "Neither release holds an allele twice, so that alleles can be paired.",
    "flags_agree_with_columns": "Each flag says whether the two values it is about differ.",
    "classes_change_with_their_texts": "No class changed where ClinVar's text did not.",
    "changes_lead_to_the_release": (
        "Applied to the predecessor the changes give the release; taken back from it, the predecessor."
    ),
    "changes_add_up": "The counts are those of the written rows and, class by class, of both releases.",
}

_WINDOWS: Mapping[str, str] = {
    "contigs_match_pins": "The FASTA's contigs have the lengths and MD5s that the catalogue pins.",
    "windows_tile_contig": "Windows start where the specification's arithmetic puts them, in every stretch of ACGT.",
    "every_record_accounted": "Records and bases in = used + skipped, by reason.",
    "placements_hold": "Every place on the reference states what its kind must, and exact ones equal its bases.",
    "windows_cut_from_records": "Every window and its flanks, cut again from its record, are the same.",
    "windows_follow_tiling": "Each record has the windows that the specification's arithmetic gives, and no others.",
}

_STATES: Mapping[str, str] = {
    "norms_plausible": "No block's norm is a hundred times above or below the median one.",
    "null_edit_bounded": "An edit that changes nothing moves a state by less than 2 % of what a SNV there moves it by.",
    "rows_equal_windows": "There is one row of states per window.",
    "states_finite": "Every block of a window holds finite numbers, and the padding behind it none.",
    "states_reproducible": "Windows spread over the cache, encoded again in another order, give the same states.",
}

_HOLDOUTS: Mapping[str, str] = {
    "alleles_in_stretches_named": "Of each held-out stretch all alleles whose bases meet it are named, and no others.",
    "contigs_held_out_whole": "A contig that is held out leaves from its first base to its last.",
    "haplotype_share_in_bounds": "Haplotype blocks take out the share of windows that the policy asks for.",
    "rows_sorted_and_unique": "Rows stand in the order of their keys, and none stands there twice.",
    "units_have_one_role": "No contig, gene component or block serves both validation and test.",
}

_PACKAGES: Mapping[str, str] = {
    "caches_match_windows": "Every pointer into a cache leads to the states of exactly that window.",
    "counts_add_up": "Windows and alleles in = train + held out, in the counts, in the files and in what came in.",
    "mix_realised": "Training draws from the corpus sources in the mix asked for, or the catalogue accepts another.",
    "no_holdout_allele_in_train": "No held-out allele, and none in a held-out stretch, is in the training split.",
    "no_holdout_corpus_row_in_train": "No corpus window that is held out, or lies in a held-out stretch, trains.",
    "no_holdout_window_in_train": "No reference window of the training split meets a held-out stretch.",
    "package_verifies": "The package in use, hashed again with its caches, is what it says it is.",
    "sequences_right": "Every sequence has its hash, holds only ACGT, and is the reference's where it says so.",
    "splits_disjoint": "No sequence, on either strand, and no allele is in two splits.",
}

_MITO: Mapping[str, str] = {
    "differences_spell_genomes": "Each genome, spelt from its differences and the reference, is itself.",
    "every_genome_accounted_for": "Records of the collections = kept + rejected, by reason, and each has its row.",
    "every_row_joined": "Rows of either shard = alleles + merged spellings, and no substitution was lost.",
    "genomes_are_their_sources": "Each genome, turned and on either strand, is the one that its collection holds.",
    "levels_within_bounds": "Every level of heteroplasmy lies within 0 and 1.",
    "near_copies_on_one_side": (
        "Any two genomes of different sides have more differences than the catalogue's bound, each pair counted to the "
        "end, and no haplogroup was parted."
    ),
    "positions_are_the_references": "Every token has the reference's position of its first base.",
    "rows_are_the_genomes": "Each row has the name and the side of the split that its genome has.",
    "sites_agree_with_alleles": "No site has less than its alleles' level, and none more without an indel nearby.",
    "tokens_spell_genomes": "The tokens of each genome, decoded, are its sequence, and unknown where a base is.",
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
}
