"""Search for equal and reverse-complement sequences, and equal alleles, across splits."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain

from genolewm_assets.audit.allele_searches import HeldAlleles
from genolewm_assets.audit.reading.contig_names import canonical_name
from genolewm_assets.audit.reading.intervals import HeldSpans, Span, emitted_span
from genolewm_assets.audit.reading.package_files import EVALUATION, TEST, TRAIN, VALIDATION, PackageFiles, window_key
from genolewm_assets.audit.report import Found, LeakKind, SearchResult

#: The symbols of NC-IUB 1984, and U, which counts as T.
_COMPLEMENT = str.maketrans("ACGTRYKMBDHV", "TGCAYRMKVHDB")
_COLUMNS = ("origin", "contig", "start", "end", "strand", "record_id", "window_index", "sequence", "right_flank")
_ALLELE = ("holdout", "role", "chrom", "pos", "ref", "alt")


def either_strand(sequence: str) -> bytes:
    """Return a digest that a sequence and its reverse complement share."""
    upper = sequence.upper().replace("U", "T")
    other = upper.translate(_COMPLEMENT)[::-1]
    return hashlib.blake2b(min(upper, other).encode(), digest_size=16).digest()


def search_duplicates(
    files: PackageFiles, held_alleles: HeldAlleles
) -> tuple[tuple[SearchResult, ...], dict[str, int]]:
    """Compare the sequences of training with those of evaluation, and validation with test; also count overlaps.

    A holdout without intervals holds out alleles only: its windows train by design and are not compared.
    """
    of_intervals = files.compared_holdouts()
    sequences: dict[str, dict[bytes, set[str]]] = {split: defaultdict(set) for split in EVALUATION}
    places, n = list[Span](), dict.fromkeys((TRAIN, VALIDATION, TEST), 0)
    for split in EVALUATION:
        for row in files.windows(split, (*_COLUMNS, "holdout")):
            n[split] += 1
            if row["holdout"] in of_intervals:
                sequences[split][either_strand(row["sequence"])].add(row["holdout"])
                places += [emitted_span(row)] if row["start"] is not None else []
    evaluated, found = HeldSpans(places), Found()
    overlapping = most = 0
    for row in files.windows(TRAIN, _COLUMNS):
        n[TRAIN] += 1
        digest = either_strand(row["sequence"])
        for split in EVALUATION:
            if digest in sequences[split]:
                found.add(window_key(row), split=split, holdouts=", ".join(sorted(sequences[split][digest])))
        if row["start"] is not None and (shared := evaluated.shared_bp(*emitted_span(row))):
            overlapping, most = overlapping + 1, max(most, shared)
    method = "digest of the sequence or of its reverse complement, whichever sorts first"
    return (
        SearchResult(
            LeakKind.DUPLICATE,
            method,
            {f"windows of {split}": rows for split, rows in n.items()},
            found,
            () if any(sequences.values()) else ("no window of evaluation is of a holdout of intervals",),
            absent="" if n[VALIDATION] + n[TEST] else "there is no window of evaluation",
        ),
        _search_evaluation(files, held_alleles, sequences, n),
    ), {
        "training windows that overlap an evaluation window of a holdout of intervals": overlapping,
        "most bases of one shared so": most,
    }


def _search_evaluation(
    files: PackageFiles, held_alleles: HeldAlleles, sequences: dict[str, dict[bytes, set[str]]], n: dict[str, int]
) -> SearchResult:
    found = Found()
    for digest in sequences[VALIDATION].keys() & sequences[TEST].keys():
        for holdout in sequences[VALIDATION][digest] & sequences[TEST][digest]:
            found.add(f"window {digest.hex()}", holdout=holdout)
    alleles = {split: set(_alleles(files, held_alleles, split)) for split in EVALUATION}
    for allele in sorted(alleles[VALIDATION] & alleles[TEST]):
        found.add(allele)
    spans = defaultdict[tuple[str, str], list[Span]](list)
    for row in files.holdout_rows("intervals", ("holdout", "role", "contig", "start", "end")):
        spans[row["holdout"], row["role"]].append(Span(canonical_name(row["contig"]), row["start"], row["end"]))
    for holdout in {holdout for holdout, _ in spans}:
        of_test = HeldSpans(spans[holdout, TEST])
        for span in spans[holdout, VALIDATION]:
            if shared := of_test.shared_bp(*span):
                found.add(f"{holdout} {span.contig}:{span.start}-{span.end}", shared_bp=shared)
    tested = HeldSpans(span for (_, role), of_role in spans.items() if role == TEST for span in of_role)
    for row in files.windows(VALIDATION, (*_COLUMNS, "holdout")):
        if row["start"] is not None and (shared := tested.shared_bp(*emitted_span(row))):
            found.add(f"{row['holdout']} {window_key(row)}", shared_bp=shared)
    return SearchResult(
        LeakKind.SHARED_EVALUATION,
        "windows, alleles in normal form and intervals of one holdout that are in validation and in test; windows of "
        "validation on intervals of test of any holdout",
        {"windows": n[VALIDATION] + n[TEST], "alleles": len(alleles[VALIDATION]) + len(alleles[TEST])},
        found,
    )


def _alleles(files: PackageFiles, held_alleles: HeldAlleles, split: str) -> Iterator[str]:
    """Yield the alleles of a split, from the holdouts and from what is evaluated, with their holdout."""
    held = (row for row in files.holdout_rows("alleles", _ALLELE) if row["role"] == split)
    for row in chain(held, files.variants(split, _ALLELE)):
        yield f"{row['holdout']} {held_alleles.form(row)}"
