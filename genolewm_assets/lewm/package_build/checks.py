"""Checks of a written package, independent of the code that selects its rows.

The checks sweep over the rows of the files; they do not use the holdout index, the split masks or their interval
arithmetic.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import EVALUATION, TOKEN_BP, Bases, Holdout, Split, reverse_complement
from genolewm_assets.lewm.holdouts import (
    HOLDOUT_ALLELES,
    HOLDOUT_CORPUS,
    HOLDOUT_HAPLOTYPES,
    HOLDOUT_INTERVALS,
)
from genolewm_assets.lewm.package_build.allele_checks import check_bench, check_training_alleles
from genolewm_assets.lewm.package_build.epoch_checks import check_mix, check_visits
from genolewm_assets.lewm.package_build.label_checks import check_labels
from genolewm_assets.lewm.package_build.plan import PackageSources
from genolewm_assets.lewm.packages import (
    HOLDOUT_PATHS,
    PACKAGE_CONTROLS,
    PACKAGE_VARIANTS,
    PACKAGE_WINDOWS,
    REFERENCE_ORIGIN,
    PackageInfo,
    VariantSource,
    controls_path,
    variants_path,
)
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.artefacts import CheckResult, stating_compared
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import TableSchema
from genolewm_assets.variants import ALLELE_KEY

#: Names of the checks, in the order of the results of :func:`check_package`.
PACKAGE_CHECKS = (
    "schema_as_declared",
    "sequences_right",
    "no_holdout_window_in_train",
    "no_holdout_allele_in_train",
    "no_holdout_corpus_row_in_train",
    "splits_disjoint",
    "labels_as_declared",
    "counts_add_up",
    "mix_served",
    "visits_bounded",
    "caches_match_windows",
    "bench_alleles_scored",
    "training_alleles_present",
)

_READ_ROWS = 512
#: Alleles that a check holds at once.
_READ_ALLELES = 4_096
_Row: TypeAlias = dict[str, Any]
_Spans: TypeAlias = dict[str, list[tuple[int, int]]]


def check_package(
    directory: Path, info: PackageInfo, sources: PackageSources, *, progress: Progress = NO_PROGRESS
) -> tuple[CheckResult, ...]:
    """Run every check of a written package against the inputs that it was made from.

    Parameters
    ----------
    directory
        Folder of the package.
    info
        Content of its ``package.json``.
    sources
        Inputs and settings of the package.
    progress
        Receives the number of windows checked.

    Returns
    -------
    tuple of CheckResult
        One result per name in :data:`PACKAGE_CHECKS`. If the schemas are wrong, the other checks are not run and fail.
    """
    schema = check_schemas(directory, info)
    if not schema.passed:
        not_run: dict[str, JsonValue] = {"error": "not run: a table does not have its schema"}
        return (schema, *(CheckResult(name, passed=False, figures=not_run) for name in PACKAGE_CHECKS[1:]))
    found = (
        schema,
        check_sequences(directory, info, sources, progress),
        check_no_window(directory, info),
        check_no_allele(directory),
        check_no_corpus_row(directory, info),
        check_disjoint(directory, info),
        check_labels(directory, info, sources),
        check_counts(directory, info, sources),
        check_mix(info),
        check_visits(info),
        check_caches(directory, info, sources),
        check_bench(
            directory, info, {name: sources.clinvar[name] for name in sources.windows if name in sources.clinvar}
        ),
        check_training_alleles(directory, info),
    )
    return tuple(_stating(check, sources) for check in found)


def _stating(check: CheckResult, sources: PackageSources) -> CheckResult:
    """State how many windows or alleles a check compared with what is held out or cached; none only if declared."""
    nothing, declared = {
        "no_holdout_window_in_train": (("windows", "intervals"), not sources.windows or not sources.intervals.num_rows),
        # Whether a package needs alleles in train is not for this check to say.
        "no_holdout_allele_in_train": (("held_out_alleles",), not sources.alleles.num_rows),
        "no_holdout_corpus_row_in_train": (("windows",), not sources.corpus),
        "sequences_right": (("windows",), False),
        "caches_match_windows": (("with_cache",), not sources.caches),
    }.get(check.name, ((), False))
    counted = [(name, check.figures.get(name)) for name in nothing]
    sizes = [(n, name) for name, n in counted if isinstance(n, int)]
    if not sizes:
        return check
    n, name = min(sizes)
    return stating_compared(check, n, f"there are no {name.replace('_', ' ')}", declared=declared)


def check_schemas(directory: Path, info: PackageInfo) -> CheckResult:
    """Compare columns, types and nullability of every table file with its declared schema; report missing tables."""
    nouns = (HOLDOUT_INTERVALS, HOLDOUT_ALLELES, HOLDOUT_CORPUS, HOLDOUT_HAPLOTYPES)
    declared: dict[str, TableSchema] = dict(zip(HOLDOUT_PATHS.values(), nouns, strict=True))
    declared |= {variants_path(split): PACKAGE_VARIANTS for split in Split}
    declared |= {controls_path(split): PACKAGE_CONTROLS for split in EVALUATION}
    problems: list[str] = []
    for entry in info.files:
        try:
            declared.get(entry.path, PACKAGE_WINDOWS).check(pq.read_schema(directory / entry.path), where=entry.path)
        except (CorruptResourceError, pa.ArrowInvalid) as err:
            problems.append(str(err))
    missing = sorted(set(declared) - {entry.path for entry in info.files})
    figures: dict[str, JsonValue] = {"files": len(info.files), "problems": problems, "missing": missing}
    return CheckResult("schema_as_declared", passed=not problems and not missing, figures=figures)


def check_sequences(
    directory: Path, info: PackageInfo, sources: PackageSources, progress: Progress = NO_PROGRESS
) -> CheckResult:
    """Check hash, length and bases of every window; compare reference windows and their flanks with the genome."""
    figures = Counter(dict.fromkeys(("windows", "wrong_hash", "not_acgt", "wrong_size", "not_the_reference"), 0))
    contig, total = None, sum(split.windows for split in info.splits.values())
    genome: Bases = b""
    for split in Split:
        for row in _windows(directory, info, split):
            sequence = row["sequence"].encode()
            whole = row["left_flank"].encode() + sequence + row["right_flank"].encode()
            digest, flanks = hashlib.sha256(sequence), {len(row["left_flank"]), len(row["right_flank"])}
            sized = len(sequence) == row["window_bp"] and len(sequence) % TOKEN_BP == 0 and flanks == {info.margin_bp}
            identified = (digest.digest(), digest.hexdigest()[:32]) == (row["window_hash"], row["window_id"])
            figures["windows"] += 1
            progress.advance(figures["windows"], total, "windows checked")
            figures["wrong_hash"] += not identified
            figures["wrong_size"] += not sized
            figures["not_acgt"] += bool(whole.translate(None, b"ACGT"))
            if row["origin"] == REFERENCE_ORIGIN:
                if row["contig"] != contig:
                    contig, genome = row["contig"], sources.reference(row["contig"])
                expected = genome[row["start"] - info.margin_bp : row["end"] + info.margin_bp]
                figures["not_the_reference"] += expected != whole
    passed = sum(figures.values()) == figures["windows"]
    return CheckResult("sequences_right", passed=passed, figures=dict(figures))


def check_no_window(directory: Path, info: PackageInfo) -> CheckResult:
    """Check that no footprint of a reference window in train overlaps a held-out interval."""
    held, spans = _held_spans(directory), _placed(directory, info, corpus=False)
    met = {contig: _count_overlapping(ours, held.get(contig, [])) for contig, ours in spans.items()}
    figures: dict[str, JsonValue] = {
        "windows": sum(map(len, spans.values())),
        "intervals": sum(map(len, held.values())),
        "windows_in_holdouts": sum(met.values()),
        "contigs": sorted(contig for contig, n in met.items() if n),
    }
    return CheckResult("no_holdout_window_in_train", passed=not any(met.values()), figures=figures)


def check_no_allele(directory: Path) -> CheckResult:
    """Check that no allele of train is listed as held out or overlaps a held-out interval."""
    listed = {_text(row) for row in _rows(directory / HOLDOUT_PATHS["alleles"], ALLELE_KEY)}
    held = _held_spans(directory)
    by_key = by_place = n = 0
    # The file is sorted by contig.
    for contig, rows in groupby(_rows(directory / variants_path(Split.TRAIN), ALLELE_KEY), key=itemgetter("chrom")):
        while batch := list(islice(rows, _READ_ALLELES)):
            n += len(batch)
            by_key += sum(_text(row) in listed for row in batch)
            spans = ((row["pos"] - 1, row["pos"] - 1 + len(row["ref"])) for row in batch)
            by_place += _count_overlapping(spans, held.get(contig, []))
    figures: dict[str, JsonValue] = {
        "alleles": n,
        "held_out_alleles": len(listed),
        "listed": by_key,
        "in_held_out_intervals": by_place,
    }
    return CheckResult("no_holdout_allele_in_train", passed=not by_key and not by_place, figures=figures)


def check_no_corpus_row(directory: Path, info: PackageInfo) -> CheckResult:
    """Check that no corpus window of train is listed as held out, or is or may be in a held-out interval by placement.

    A window of which only the contig is known fails the check if that contig has a held-out interval.
    """
    columns = ("source", "record_id", "window_index")
    listed = {tuple(row[name] for name in columns) for row in _rows(directory / HOLDOUT_PATHS["corpus"], columns)}
    held = _held_spans(directory)
    spans = _placed(directory, info, corpus=True)
    by_place = sum(_count_overlapping(ours, held.get(contig, [])) for contig, ours in spans.items())
    by_key = by_name = n = 0
    for row in _windows(directory, info, Split.TRAIN, ["origin", "record_id", "window_index", "contig", "start"]):
        if row["origin"] != REFERENCE_ORIGIN:
            n += 1
            by_name += row["start"] is None and row["contig"] in held
            by_key += (row["origin"], row["record_id"], row["window_index"]) in listed
    figures: dict[str, JsonValue] = {
        "windows": n,
        "placed": sum(map(len, spans.values())),
        "listed": by_key,
        "in_held_out_intervals": by_place,
        "somewhere_on_a_contig_with_intervals": by_name,
    }
    passed = not by_key and not by_place and not by_name
    return CheckResult("no_holdout_corpus_row_in_train", passed=passed, figures=figures)


def check_disjoint(directory: Path, info: PackageInfo) -> CheckResult:
    """Check that splits share no window (by sequence, on both strands) and no allele.

    Windows of a holdout with alleles only are not compared: they may be in train, with other alleles.
    """
    areas = {row["holdout"] for row in _rows(directory / HOLDOUT_PATHS["intervals"], ("holdout",))}
    held, reversed_held, keys = set[bytes](), set[bytes](), dict[Split, set[object]]()
    for split in EVALUATION:
        keys[split] = set()
        columns = ["holdout", "contig", "start", "window_hash", "sequence"]
        for row in (row for row in _windows(directory, info, split, columns) if row["holdout"] in areas):
            keys[split].add((row["contig"], row["start"]))
            held.add(row["window_hash"])
            reversed_held.add(hashlib.sha256(reverse_complement(row["sequence"]).encode()).digest())
    copies = reverse_copies = 0
    for row in _windows(directory, info, Split.TRAIN, ["window_hash"]):
        copies += row["window_hash"] in held
        reverse_copies += row["window_hash"] in reversed_held
    validation, test = ({_text(row) for row in _rows(directory / variants_path(s), ALLELE_KEY)} for s in EVALUATION)
    train = map(_text, _rows(directory / variants_path(Split.TRAIN), ALLELE_KEY))
    figures: dict[str, int] = {
        "train_windows_equal_to_evaluation": copies,
        "train_windows_reverse_complement_of_evaluation": reverse_copies,
        "windows_in_validation_and_test": len(keys[Split.VALIDATION] & keys[Split.TEST]),
        "alleles_in_train_and_evaluation": sum(key in validation or key in test for key in train),
        "alleles_in_validation_and_test": len(validation & test),
    }
    return CheckResult("splits_disjoint", passed=not any(figures.values()), figures=figures)


def check_counts(directory: Path, info: PackageInfo, sources: PackageSources) -> CheckResult:
    """Check that the counts agree with each other, with the rows of the files and with the rows of the inputs."""
    counts, problems = info.counts, []
    origins = Counter(row["origin"] for row in _windows(directory, info, Split.TRAIN, ["origin"]))
    given = {REFERENCE_ORIGIN: sum(table.num_rows for table in sources.windows.values())}
    given |= {source: _rows_of(table) for source, table in sources.corpus.items()}
    for origin, n in given.items():
        outcomes = ("train", "held_out", "equal_to_held_out")
        known = sum(counts.get(f"windows.{origin}.{outcome}", 0) for outcome in outcomes)
        if not counts.get(f"windows.{origin}.in", 0) == n == known:
            problems.append(f"windows of {origin}: {n} in the inputs, {known} counted")
        if counts.get(f"windows.{origin}.train", 0) != origins[origin]:
            stated_n = counts.get(f"windows.{origin}.train", 0)
            problems.append(f"windows of {origin} in train: {origins[origin]} in the files, {stated_n} counted")
    alleles = Counter(row["source"] for row in _rows(directory / variants_path(Split.TRAIN), ("source",)))
    labelled = sources.clinvar if sources.clinvar_t0 is None else sources.clinvar_t0
    shards = {VariantSource.GNOMAD: sources.gnomad, VariantSource.CLINVAR: labelled}
    for source, tables in shards.items():
        n = sum(table.num_rows for contig, table in tables.items() if contig in sources.windows)
        train, out = (counts.get(f"alleles.{source}.{outcome}", 0) for outcome in ("train", "held_out"))
        if n != train + out or train != alleles[source]:
            counted = f"{train + out} counted, {alleles[source]} in the file of train"
            problems.append(f"alleles of {source}: {n} in the inputs, {counted}")
    for split in EVALUATION:
        rows = _windows(directory, info, split, ["holdout", "frozen"])
        found = Counter(row["holdout"] if row["frozen"] else f"{row['holdout']} (to score)" for row in rows)
        stated = Counter({str(name): counts.get(f"{split}.{name}.windows", 0) for name in Holdout})
        stated += Counter({f"{name} (to score)": counts.get(f"{split}.{name}.scoring_windows", 0) for name in Holdout})
        if stated != found:
            problems.append(f"windows of {split}: {dict(found)} in the files, {dict(stated)} counted")
    problems += [
        f"rows of the window files of {split} differ from package.json"
        for split in Split
        if sum(entry.rows or 0 for entry in info.split_files(split)) != info.splits[split].windows
    ]
    figures: dict[str, JsonValue] = {"windows": sum(given.values()), "problems": problems}
    return CheckResult("counts_add_up", passed=not problems, figures=figures)


def check_caches(directory: Path, info: PackageInfo, sources: PackageSources) -> CheckResult:
    """Check that every window's cache key and cache row lead to the row of a window with the same hash.

    Row i of a cache belongs to row i of the input window table of its contig or corpus source.
    """
    caches = {ref.source: ref for ref in info.caches}
    hashes = {name: table["window_hash"] for name, table in sources.windows.items() if name in caches}
    for name in caches.keys() & sources.corpus.keys():
        batches = [batch["window_hash"] for _, batch in sources.corpus_batches(name, ["window_hash"])]
        hashes[name] = pa.chunked_array([chunk for column in batches for chunk in column.chunks], pa.binary(32))
    figures = Counter(dict.fromkeys(("windows", "with_cache", "wrong_key", "wrong_row"), 0))
    columns = ["origin", "contig", "window_hash", "cache_key", "cache_row"]
    for row in (row for split in Split for row in _windows(directory, info, split, columns)):
        name = row["contig"] if row["origin"] == REFERENCE_ORIGIN else row["origin"]
        ref, at = caches.get(name), row["cache_row"]
        figures["windows"] += 1
        figures["with_cache"] += ref is not None
        figures["wrong_key"] += row["cache_key"] != (ref.key if ref else None)
        if ref is not None:
            figures["wrong_row"] += not 0 <= at < ref.rows or hashes[name][at].as_py() != row["window_hash"]
    figures["wrong_size"] = sum(caches[name].rows != len(column) for name, column in hashes.items())
    passed = not any(n for name, n in figures.items() if name.startswith("wrong"))
    return CheckResult("caches_match_windows", passed=passed, figures=dict(figures))


def _windows(directory: Path, info: PackageInfo, split: Split, columns: Sequence[str] | None = None) -> Iterator[_Row]:
    for entry in info.split_files(split):
        yield from _rows(directory / entry.path, columns)


def _rows(path: Path, columns: Sequence[str] | None) -> Iterator[_Row]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_READ_ROWS, columns=columns):
            yield from batch.to_pylist()


def _rows_of(table: pa.Table | ds.Dataset) -> int:
    return int(table.num_rows if isinstance(table, pa.Table) else table.count_rows())


def _text(row: _Row) -> str:
    """Return the key of an allele as text; a set of millions takes a fourth of the memory of one of tuples."""
    return f"{row['chrom']}:{row['pos']}:{row['ref']}:{row['alt']}"


def _held_spans(directory: Path) -> _Spans:
    held: _Spans = {}
    for row in _rows(directory / HOLDOUT_PATHS["intervals"], ("contig", "start", "end")):
        held.setdefault(row["contig"], []).append((row["start"], row["end"]))
    return held


def _placed(directory: Path, info: PackageInfo, *, corpus: bool) -> _Spans:
    """Return the footprints, by contig, of the placed training windows: reference windows, or corpus windows."""
    spans: _Spans = {}
    for row in _windows(directory, info, Split.TRAIN, ["origin", "contig", "start", "end", "strand"]):
        if (row["origin"] != REFERENCE_ORIGIN) is corpus and row["start"] is not None:
            # On strand "-" the right flank, from which deletions take bases, is to the left of the window.
            left, right = (info.margin_bp, 0) if row["strand"] == "-" else (0, info.margin_bp)
            spans.setdefault(row["contig"], []).append((row["start"] - left, row["end"] + right))
    return spans


def _count_overlapping(spans: Iterable[tuple[int, int]], held: Iterable[tuple[int, int]]) -> int:
    """Count the spans that share a base with a held-out span, in one sweep over both sorted lists."""
    union: list[tuple[int, int]] = []
    for start, end in sorted(held):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    met = at = 0
    for start, end in sorted(spans):
        while at < len(union) and union[at][1] <= start:
            at += 1
        met += at < len(union) and union[at][0] < end
    return met
