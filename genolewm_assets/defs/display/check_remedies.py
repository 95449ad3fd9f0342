"""What to do when a check fails: one or two sentences each, which the UI shows beside the rows at fault."""

from __future__ import annotations

from collections.abc import Mapping

#: For checks that compare what this code wrote with its inputs: nobody's data can make them fail.
_FAULT_OF_THE_CODE = (
    "Materialise the partition again: if it fails with the same rows, the code that built it is wrong. Report it with "
    "these rows, the code version and the catalogue; the last good version stays in use."
)

_GENERAL: Mapping[str, str] = {
    "inputs_accepted": (
        "Do what the row says. If an upstream asset is missing or failed, materialise that one first; if a source "
        "cannot be read, compare its URL and MD5 in the catalogue with the file."
    ),
    "built_from_current_inputs": (
        "Materialise this partition: it is then built from what the rows name. Nothing needs doing if the former "
        "inputs were meant."
    ),
    "newest_release_built": (
        "Materialise clinvar/release for the newest release, or run refresh_release for it, and see why the sensor "
        "clinvar_release_sensor did not: it must be running, and the listing within reach. An age limit is changed "
        "with clinvar.freshness in the catalogue."
    ),
    "bytes_match_manifest": (
        "The named files changed after they were published: a disk, a copy or a person altered them. Materialise the "
        "partition again, which writes them anew, then what was built from them; see how the files could change."
    ),
    "checksum_matches_published": (
        "The download is broken, or the publisher replaced the file: materialise again to fetch it anew. If the "
        "publisher states another MD5 now, write that one in the catalogue."
    ),
    "schema_as_declared": (
        "The rows name each column that differs. If an older version of the code wrote the file, materialise the "
        "partition again; otherwise report it with the rows."
    ),
    "alleles_sorted_and_unique": _FAULT_OF_THE_CODE,
    "window_hashes_right": _FAULT_OF_THE_CODE,
    "windows_hold_only_acgt": _FAULT_OF_THE_CODE,
}

_SHARDS: Mapping[str, str] = {
    "every_record_accounted_for": (
        "Records were lost or counted twice, for example because the file changed while it was read. Materialise "
        "again; if the same rows come back, report them with the name and MD5 of the source."
    ),
    "alleles_in_normal_form": _FAULT_OF_THE_CODE,
    "frequencies_consistent": (
        "The source states frequencies that contradict its counts. Look up the rows in the VCF; if it says the same, "
        "take the file of another release, or report the fault to its publisher. Where AN is that of another record of "
        "the position, records were joined, as bcftools norm -m +any does: take the published file."
    ),
    "contigs_known": (
        "Where a name of the rows means a contig of the catalogue, add it under the contig's aliases in "
        "genome.contigs, and materialise again. Nothing needs doing if these contigs are meant to be left out."
    ),
    "filters_spare_most": (
        "Look at the INFO fields AN in the VCF: many common alleles have few genotypes. Where that is how the file was "
        "made, lower gnomad.min_an_fraction in the catalogue, or --min-an-fraction."
    ),
    "kept_alleles_pass_filters": _FAULT_OF_THE_CODE,
    "labels_follow_clnsig": (
        "ClinVar uses words for which the rules of the classes are not made. Compare the column clnsig of the rows "
        "with ClinVar's page of the variant, and report the new words; the former release stays in use."
    ),
    "ref_agrees_with_genome": (
        "The genome is another one than the alleles were normalised on. Materialise reference/genome, then this asset; "
        "if it fails again, report the rows."
    ),
    "ref_mismatches_rare": (
        "The file is most likely of another assembly. Compare ##reference and ##contig in its header with the genome "
        "of the catalogue, and look up the rows by the line numbers of the decompressed source file: at these "
        "positions the reference has the bases in the column expected. Name the file of the right assembly in the "
        "catalogue. If the file is right and merely has more such records, raise max_ref_mismatch_fraction of its "
        "section."
    ),
    "release_key_equals_header_date": (
        "The server offers a file under the name of another release. Wait until the listing is right, or remove the "
        "file from a listing of your own; the former release stays in use."
    ),
}

_CHANGES: Mapping[str, str] = {
    "shards_hold_no_allele_twice": "Materialise clinvar/shard for both releases again, then this asset.",
    "flags_agree_with_columns": _FAULT_OF_THE_CODE,
    "classes_change_with_their_texts": (
        "The two shards were built with different rules for the classes. Materialise clinvar/shard for both releases "
        "with the same code, then this asset."
    ),
    "changes_lead_to_the_release": (
        "A shard changed while it was compared, or the code is wrong. Materialise clinvar/shard for both releases, "
        "then this asset; if the same rows come back, report them."
    ),
    "changes_add_up": "Materialise clinvar/shard for both releases, then this asset; report rows that come back.",
}

_WINDOWS: Mapping[str, str] = {
    "contigs_match_pins": (
        "The FASTA is not the genome that the catalogue pins. Name the right file in genome.fasta, or, for another "
        "assembly, state its contigs with their lengths and MD5s and use a new root."
    ),
    "windows_tile_contig": _FAULT_OF_THE_CODE,
    "placements_hold": (
        "Look up the records in the corpus file. If their coordinates are of another assembly, do not declare them as "
        "coordinates of this genome in the catalogue; otherwise report the rows."
    ),
    "windows_cut_from_records": (
        "The corpus file changed while it was read, or the code is wrong. Materialise again; report rows that come "
        "back."
    ),
    "windows_follow_tiling": _FAULT_OF_THE_CODE,
    "faulty_records_rare": (
        "Correct the rows in the corpus file: each names its record, what is expected and what is there. If they are "
        "to be left out, raise corpus.max_faulty_fraction in the catalogue."
    ),
}

_STATES: Mapping[str, str] = {
    "norms_plausible": (
        "The model is damaged, or of a precision that overflows. Compare the MD5 of its files, and encode the windows "
        "of the rows with encoder.dtype: float32 in the catalogue."
    ),
    "null_edit_bounded": (
        "Sources and targets are computed differently, so that the effect of an edit drowns. Use one encoder, one "
        "dtype and one device for both; on a GPU turn off TF32 and other reduced precision."
    ),
    "precision_sufficient": (
        "With this model the rounding of bfloat16 hides what edits change. State encoder.compute: float32 in the "
        "catalogue, or another encoder.layer, and materialise again."
    ),
    "rows_equal_windows": "The window table changed meanwhile: materialise the windows, then these states.",
    "states_finite": (
        "Numbers overflowed or a write was cut. Materialise again; if the same rows come back, state "
        "encoder.dtype: float32 in the catalogue, or report them."
    ),
    "states_reproducible": (
        "The encoder gives other states now than when they were stored: another device, library or model. Compare "
        "provenance.json of the cache with this machine, and materialise again on one kind of device."
    ),
    "every_visit_frozen": _FAULT_OF_THE_CODE,
    "frozen_states_finite": (
        "Numbers overflowed in edited windows, or a write was cut. Materialise again; if the rows come back, state "
        "encoder.compute: float32 in the catalogue, or report them."
    ),
    "frozen_tuples_recomputed": (
        "Of target_states: another device, library or model than that which wrote the rows; materialise again on one "
        "kind of device. Of other arrays: the code is wrong; report the rows."
    ),
}

_HOLDOUTS: Mapping[str, str] = {
    "alleles_in_stretches_named": _FAULT_OF_THE_CODE,
    "similar_windows_excluded": _FAULT_OF_THE_CODE,
    "corpus_windows_in_doubt_named": _FAULT_OF_THE_CODE,
    "contigs_held_out_whole": (
        "See that the contigs in holdouts.contigs_validation and holdouts.contigs_test are names of the catalogue's "
        "genome, and materialise again; otherwise report the rows."
    ),
    "haplotype_share_in_bounds": (
        "The blocks do not add up to the share that is asked for. Choose another holdouts.haplotype_fraction, or a "
        "smaller holdouts.max_block_bp, in the catalogue."
    ),
    "haplotypes_as_carried": (
        "The phased VCF changed since it was read, or the code is wrong. Materialise again; report rows that come back."
    ),
    "evaluated_stays_held_out": _FAULT_OF_THE_CODE,
    "moves_in_bounds": (
        "See genes_changed in clinvar/changes: a damaged GENEINFO names other genes. Wait for a corrected release, or "
        "raise holdouts.max_moved_fraction in the catalogue if the changes are meant."
    ),
    "windows_suffice_for_mix": (
        "Do one of what the rows say before states are computed: packages/split would fail its check visits_bounded. "
        "The shares are those of packages.mix in the catalogue."
    ),
    "rows_sorted_and_unique": _FAULT_OF_THE_CODE,
    "units_have_one_role": (
        "The policy gives a unit of the rows to validation and to test. See that no contig is in both lists of the "
        "section holdouts, and no gene in both; otherwise report the rows."
    ),
}

_LEAK = (
    "Do not train on this package: it is not published, and the former one stays in use. Materialise holdouts/manifest "
    "and then packages/split of the release; if the same rows come back, report them."
)

_PACKAGES: Mapping[str, str] = {
    "audit_is_conclusive": (
        "Give the audit what the rows name: a FASTA with whole contigs, the ClinVar VCF of the release, or more tuples "
        "(packages.audit_tuples). Nothing needs doing if the genome is meant to be partial."
    ),
    "bench_alleles_scored": (
        "The bench would miss or repeat the alleles of the rows. Materialise holdouts/manifest, then packages/split; "
        "report rows that come back."
    ),
    "caches_match_windows": (
        "The states belong to other windows than the package has. Materialise embeddings/cache and embeddings/corpus "
        "for the sources of the rows, then packages/split."
    ),
    "counts_add_up": "Materialise packages/split again; if the same rows come back, report them.",
    "labels_as_declared": (
        "Materialise clinvar/shard of the release and of T0, then packages/split. If the fault is that there is no T0, "
        "set packages.knowledge: newest in the catalogue, or name a release for the temporal holdout."
    ),
    "held_out_contexts_right": _FAULT_OF_THE_CODE,
    "mapped_form_right": _FAULT_OF_THE_CODE,
    "mix_served": (
        "The sources are too small for the shares that the catalogue wants. Change packages.mix, or declare what can "
        "be served with packages.mix_declared."
    ),
    "no_leak_found": (
        "Do not train on this package: packages/current does not move to it. The rows name what leaks, and "
        "findings.parquet in the folder rejected of the root names all. Hold it out (holdouts in the catalogue), or "
        "take its records out of the corpus, then materialise holdouts/manifest, packages/split and packages/audit. If "
        "the catalogue should have kept it out, report the rows: a filter is wrong."
    ),
    "planted_leaks_found": (
        "The audit would miss leaks of the kinds of the rows, so its result says too little: packages/current does not "
        "move. Raise packages.audit_planted if chance may be the reason, and packages.audit_tuples if two_snvs is "
        "among the rows; otherwise report them."
    ),
    "no_holdout_allele_in_train": _LEAK,
    "no_holdout_corpus_row_in_train": _LEAK,
    "no_holdout_window_in_train": _LEAK,
    "package_verifies": (
        "Do what the row says: materialise packages/split of its release again, then packages/audit, or pin another "
        "release: genolewm package pin RELEASE."
    ),
    "sequences_right": (
        "Materialise windows/index and corpus/windows of the contigs and sources of the rows, then packages/split; "
        "report rows that come back."
    ),
    "splits_disjoint": _LEAK,
    "training_alleles_present": (
        "Change holdouts or window tracks of the catalogue so that alleles are left for training, or declare that "
        "there are none with packages.without_alleles: true."
    ),
    "training_stars_sufficient": "Materialise packages/split again; if the same rows come back, report them.",
    "visits_bounded": (
        "Lower the share of the named windows in packages.mix, raise packages.max_visits, or give the source more "
        "windows."
    ),
}

_MITO: Mapping[str, str] = {
    "differences_spell_genomes": _FAULT_OF_THE_CODE,
    "every_genome_accounted_for": (
        "A record is lost or read twice, for example because a collection changed while it was read. Materialise "
        "again; report rows that come back."
    ),
    "every_row_joined": "Materialise gnomad/shard of chrM and clinvar/shard, then this; report rows that come back.",
    "genomes_are_their_sources": _FAULT_OF_THE_CODE,
    "levels_within_bounds": (
        "The heteroplasmy file states levels outside 0 to 1, such as percentages. Look up the genomes of the rows in "
        "it."
    ),
    "near_copies_on_one_side": (
        "Genomes of the rows are near copies in two splits. Materialise again; if the same rows come back, report "
        "them: training would have seen a genome of the test."
    ),
    "positions_are_the_references": _FAULT_OF_THE_CODE,
    "rows_are_the_genomes": "Materialise mito/genomes, then mito/tokens.",
    "samples_reach_genomes": (
        "Samples of the rows are named otherwise than their genomes. Rename them with bcftools reheader -s, or take "
        "samples without a genome out of the file with bcftools view -s. Where no call counts, look at its filters and "
        "levels."
    ),
    "sites_agree_with_alleles": _FAULT_OF_THE_CODE,
    "tokens_spell_genomes": _FAULT_OF_THE_CODE,
}

_FORENSIC: Mapping[str, str] = {
    "every_file_accounted_for": (
        "A file appeared or disappeared while the run was built. Materialise again; report rows that come back."
    ),
    "annotations_reach_injections": (
        "The allele report of the rows names samples or loci otherwise than the instrument files and the panel, or is "
        "of another run or kit. Rename them in the report, or take the lines out."
    ),
    "size_standard_fits": (
        "Look at the trace of the size standard in the files of the rows; take files of failed injections out of the "
        "folder, or state the fragments with forensic.size_standard_bp."
    ),
    "ladder_complete": (
        "Put a ladder of the kit into the folder, and check forensic.panels and forensic.ladder_names. An allele that "
        "is missing in every ladder may be none of the kit's version."
    ),
    "negative_clean": (
        "The run may be contaminated: look at the file of the rows before its samples are used. Without a negative "
        "control, check forensic.negative_names or declare forensic.negative_control: optional."
    ),
    "control_has_its_genotype": (
        "Look at the file of the rows; check forensic.positive_names and that the panel files are those of the kit."
    ),
    "saturation_flagged": _FAULT_OF_THE_CODE,
}

CHECK_REMEDIES: Mapping[str, str] = {
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
