"""What the metadata entries of a materialisation or observation mean: the UI shows them as part of the description.

The UI has no place for the meaning of an entry beside its value.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Entries that are shown at every asset, and say what they are by their names.
PLAIN_ENTRIES = frozenset(
    {
        *("kept", "path", "folder", "url", "size", "counts", "pictures", "sample_rows"),
        *("dagster/row_count", "dagster/partition_row_count", "dagster/size_bytes", "dagster/column_lineage"),
    }
)

_PUBLISHED = {
    "files": "the published files; 1 MB is 10^6 bytes",
    "reused": "whether the published files were kept, because a build would give the same",
}

_STATES = {
    "norm_p1, norm_median, norm_p99": (
        "1st, 50th and 99th percentile of the Euclidean norm of a block's state, over at most 256 windows"
    ),
    "blocks_a_window": "blocks of 384 bases (64 6-mers) in a window",
    "window_hashes": "index from the hash of a window to its row in the caches of the root",
    "device, compute, dtype, torch, transformers": (
        "what the run that built the states computed them on, in which precision, stored as what, with which libraries"
    ),
    "windows_encoded, encoding_s, windows_per_s, batch_windows": (
        "windows that the run encoded itself, seconds that it took with writing, their rate, windows per forward pass"
    ),
    "tflops, matrix_tflops, share_of_matrix_rate": (
        "10^12 operations a second of the encoding, those of products of large matrices on the same device and in the "
        "same precision, and the former divided by the latter"
    ),
    "state_norms": "how many blocks have which norm",
    **_PUBLISHED,
}

_SOURCE = {
    "number_of_files, files": "the files, where the catalogue names none or several",
    "modified": "latest change of the file, or of all files",
    "size_bytes": "size of the file, or of all files",
    "file, md5, version, expected_md5, revision": "as the columns of the same names",
}

_CARD = {
    "card": "the dataset card of the package",
    "card_yaml": "its head, which the Hugging Face Hub reads",
}

_RELEASES = {
    "releases": "what became of the newest releases, why, and what each changed",
    "over_releases": "alleles by class, benches, windows held out and moves between the sides, release by release",
}

#: Meaning of the entries by asset; names with one meaning share a key, separated by ``", "``, and may hold ``*``.
ENTRY_DESCRIPTIONS: Mapping[str, Mapping[str, str]] = {
    "reference/genome": {
        "bases": "length of all contigs",
        "acgt_share": "share of them that are A, C, G or T, 0 to 1",
        "contigs": "the contigs with length, topology and MD5",
        **_PUBLISHED,
    },
    "gnomad/shard": {
        "alleles_filtered": "alleles left out by FILTER, AF or AN",
        "alleles_rejected": "alleles that are not usable, as `rejects.parquet` lists them",
        "af_by_contig": "how many alleles of each published contig have which frequency",
        "af_spectrum": "the same of this contig",
        "alleles_along_contig": "how many alleles lie where",
        **_PUBLISHED,
    },
    "clinvar/release": {**_RELEASES, **_PUBLISHED},
    "clinvar/shard": {
        "alleles_pathogenic, alleles_benign, alleles_uncertain": "alleles of the classes P and LP, B and LB, VUS",
        "alleles_with_two_stars": "alleles with at least two review stars",
        "alleles_rejected": "alleles that are not usable, as `rejects.parquet` lists them",
        "class_balance, classes_by_review_stars": "alleles by class, and by class and stars",
        **_PUBLISHED,
    },
    "clinvar/changes": {
        "predecessor": "release that this one is compared with",
        "added, removed": "alleles of one of the two releases only",
        "text_changed, class_changed, id_changed, stars_changed, genes_changed": (
            "alleles of both whose CLNSIG text, class, VariationID or review stars differ"
        ),
        "classes_from_to": "alleles by class before and now",
        **_PUBLISHED,
    },
    "windows/index": {
        "acgt_share_in_windows": "share of the contig's A, C, G and T that windows cover, 0 to 1",
        "mean_gc": "mean share of G and C of a window, 0 to 1",
        "gc_by_contig": "how many windows of each published contig have which share of G and C",
        "coverage_by_contig, coverage_along_contig": "where windows lie, in each published contig and in this one",
        **_PUBLISHED,
    },
    "corpus/windows": {
        "records_used": "records of the source of which there are windows",
        "faulty_share": "share of the rows of the source that are at fault, 0 to 1; counts has the reasons",
        "base_share_in_windows": "share of the bases of all records that windows cover, 0 to 1",
        "maybe_human_share": "share of the windows whose record may be human, 0 to 1",
        "placed_share": "share of the windows with a place on the reference, 0 to 1",
        "placements": "windows by how they were placed",
        **_PUBLISHED,
    },
    "embeddings/cache": _STATES,
    "embeddings/corpus": _STATES,
    "holdouts/manifest": {
        "temporal": "releases T0 and T1 of the temporal holdout, and why T0 is the one",
        "keeps_sides_of": "release of the earlier package; what it held out stays held out",
        "to_training, from_training, genes_changed": (
            "alleles of both releases that would train now and are kept out, that train no more, whose genes changed"
        ),
        "window_share_held_out, corpus_share_held_out": (
            "share of the reference and of the corpus windows that training must not see, 0 to 1"
        ),
        "alleles_held_out": "rows of the table of alleles: one per allele and holdout",
        "windows_similar, windows_similar_by_repeats": (
            "windows that are similar to held-out sequence and excluded; and those that are similar by repeats alone"
        ),
        "composition": "windows and alleles by holdout and split",
        **_PUBLISHED,
    },
    "packages/split": {
        "*_windows, *_alleles": "rows of each split",
        "distance_from_mix": (
            "greatest difference of a share served in a simulated epoch from the declared one, 0 to 1"
        ),
        "distance_from_rfc_0006": "the same from the shares of RFC-0006, 0 to 1",
        "unseen_windows": "training windows that the simulated epoch does not show",
        "temporal": "releases T0 and T1 of the temporal holdout, and why T0 is the one",
        "knowledge": "release whose ClinVar labels training uses: `newest` is the package's, `T0` the earlier one",
        "splits, source_mix, edit_mix": "the splits, and shares served and declared of origins and of edits",
        **_CARD,
        **_PUBLISHED,
    },
    "packages/audit": {
        "headline": "what is guaranteed, and how sure that is",
        "power": "share of the planted leaks that the audit finds, 0 to 1",
        "tuples_drawn": "tuples of the training stream that were searched",
        "training_windows": "windows of training; all were searched, and each was drawn",
        "power_and_findings": "planted leaks and findings by kind of leak, as a picture",
        "searches": "by kind of leak: the verdict, in how much was searched, planted leaks found",
        "planted_leaks": "planted leaks by kind of plant, and how many of them were found",
        "measured": "what the package shares with its holdouts by design",
        "methods": "how each kind of leak was looked for",
        "package": "the package that was audited",
        **_PUBLISHED,
    },
    "tuples/frozen": {
        "tuples, epochs": "tuples of all epochs, and the number of epochs",
        "tuple_bytes": "bytes on disk divided by the number of tuples",
        "shift_p1, shift_median, shift_p99": (
            "1st, 50th and 99th percentile of the Euclidean distance between the states of a tuple, over at most 64 "
            "visits"
        ),
        "tuples_encoded, encoding_s": "edited windows that the run encoded itself, seconds that it took with writing",
        "device, compute, dtype, torch, transformers": (
            "what the run that built the rows computed states on, in which precision, stored as what, with which "
            "libraries"
        ),
        **_PUBLISHED,
    },
    "packages/current": {
        "release, path, manifest_sha256": "the package in use",
        **_RELEASES,
        "pinned": "whether a person chose it",
        "before": "the package that was in use before",
        "clinvar_added, clinvar_removed, clinvar_reclassified": "alleles of ClinVar that differ since then",
        "bench_alleles_added, bench_alleles_removed, bench_labels_changed": "alleles of all benches that differ",
        "train_labels_changed": "ClinVar alleles of training with another label than before",
        "train_*, validation_*, test_*": "rows of each split that the move added and removed",
        "report, report_file": "what changed since the package before",
        "open": "code that opens the package",
        **_CARD,
    },
    "mito/genomes": {
        "rejected": "genomes that did not pass quality control",
        "clusters": "groups of near copies",
        "train, validation, test": "genomes by split",
        "haplogroups": "genomes by haplogroup and split",
        "differences_along_circle": "where genomes differ from the reference",
        **_PUBLISHED,
    },
    "mito/tokens": {
        "tokens": "tokens of all genomes",
        "kmers_seen, kmer_coverage": "k-mers of the vocabulary that occur, and their share of it, 0 to 1",
        "unknown_rate": "share of the tokens that hold another letter than A, C, G or T, 0 to 1",
        "genomes_with_heteroplasmy": "genomes with calls of heteroplasmy",
        "entropy_along_circle": "how much the k-mers at a position differ among genomes, in bits",
        "most_frequent_kmers": "the k-mers that occur most often",
        **_PUBLISHED,
    },
    "mito/variants": {
        "alleles_gnomad, alleles_clinvar, alleles_in_both": "alleles by source",
        "sites_with_heteroplasmy": "positions with a heteroplasmy level above 0 in the population",
        "heteroplasmy_along_circle": "highest level by position",
        **_PUBLISHED,
    },
    "forensic/profiles": {
        "left_out": "files that were left out",
        "annotated": "profiles that an allele report of the folder names",
        "saturated": "profiles in which the detector was saturated",
        "max_residual_bp": "largest distance of a fragment of the size standard from the smooth curve, in base pairs",
        "files_left_out": "files that were left out, by reason",
        "ladder": "the run's ladder over base pairs, with its alleles, the size standard and the threshold of calls",
        "quality": "fit of the size standard and numbers of peaks of each profile",
        **_PUBLISHED,
    },
    "platform/status": {
        "status": "the page of the morning",
        "well": "whether nothing is failed, late, stale or unreadable",
        "failed, late, stale, unreadable, missing, waiting, running": "how many of each kind there are, if any",
        "published_partitions": "partitions that consumers can open",
        "size_bytes, free_bytes": "size of what is published and superseded, and space left on its disk",
        "hours_of_states": "hours of all past steps that need an H100",
    },
    **{
        f"{domain}/source": _SOURCE
        for domain in ("reference", "gnomad", "haplotypes", "mito", "corpus", "encoder", "forensic")
    },
}


def describe_entries(key: str) -> str:
    """Return the meaning of the entries of an asset as a Markdown list with a heading; empty for one without any."""
    entries = ENTRY_DESCRIPTIONS.get(key, {})
    lines = [f"- {', '.join(f'`{name}`' for name in names.split(', '))}: {entries[names]}" for names in entries]
    return "\n".join(["Metadata:", "", *lines]) if lines else ""
