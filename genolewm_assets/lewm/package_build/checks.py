"""Checks of a written package, independent of the code that selects its rows.

The checks read the rows of the files; they do not use the holdout index, the split masks or their interval arithmetic.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import EVALUATION, TOKEN_BP, Bases, Holdout, Split
from genolewm_assets.lewm.holdouts import (
    HOLDOUT_ALLELES,
    HOLDOUT_CORPUS,
    HOLDOUT_HAPLOTYPES,
    HOLDOUT_INTERVALS,
    HOLDOUT_SIMILAR,
)
from genolewm_assets.lewm.mapped import MAPPED_FORM_RIGHT, check_mapped
from genolewm_assets.lewm.package_build.allele_checks import check_bench, check_training_alleles
from genolewm_assets.lewm.package_build.epoch_checks import check_mix, check_visits
from genolewm_assets.lewm.package_build.label_checks import check_labels, check_training_stars
from genolewm_assets.lewm.package_build.leakage_checks import (
    check_contexts,
    check_disjoint,
    check_no_allele,
    check_no_corpus_row,
    check_no_window,
)
from genolewm_assets.lewm.package_build.plan import PackageSources
from genolewm_assets.lewm.package_build.rows import UNDER_STARS
from genolewm_assets.lewm.package_build.written_rows import WrittenRow, read_rows, read_window_rows
from genolewm_assets.lewm.packages import (
    ARRAYS,
    CONTEXTS_PATH,
    HOLDOUT_PATHS,
    PACKAGE_CONTEXTS,
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
from genolewm_assets.store.artefacts import NOT_RUN, Check, CheckResult, RowsAtFault, stating_compared
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import SCHEMA_AS_DECLARED, TableSchema

_LEAK = (
    "Do not train on this package: it is not published, and the former one stays in use. Materialise "
    "holdouts/manifest and then packages/split of the release; if the same rows come back, report them."
)

#: The checks, in the order of the results of :func:`check_package`.
PACKAGE_CHECKS = (
    SCHEMA_AS_DECLARED,
    Check(
        "sequences_right",
        "Every window has the SHA-256 of its row, consists of ACGT only and, if it is a reference window, equals the "
        "genome, flanks included.",
        "Materialise windows/index and corpus/windows of the contigs and sources of the rows, then packages/split; "
        "report rows that come back.",
    ),
    MAPPED_FORM_RIGHT,
    Check(
        "no_holdout_window_in_train",
        "The footprint of no reference window of the training split overlaps a held-out interval.",
        _LEAK,
    ),
    Check(
        "no_holdout_allele_in_train",
        "The training split contains no allele that is listed as held out or overlaps a held-out interval.",
        _LEAK,
    ),
    Check(
        "no_holdout_corpus_row_in_train",
        "The training split contains no corpus window that is listed as held out or may overlap a held-out interval.",
        _LEAK,
    ),
    Check(
        "splits_disjoint",
        "No allele is in two splits, no reference window is in both validation and test, and no training window "
        "equals an evaluation window of a holdout with intervals on either strand.",
        _LEAK,
    ),
    Check(
        "held_out_contexts_right",
        "Every held-out allele has one row with the 30 bases of the genome before and behind it, by which training "
        "refuses edits that make it in windows without an exact place.",
    ),
    Check(
        "labels_as_declared",
        "Every ClinVar allele in training has the class and stars of the release that `knowledge` declares, and every "
        "one in validation and test those of the package's release.",
        "Materialise clinvar/shard of the release and of T0, then packages/split. If the fault is that there is no "
        "T0, set packages.knowledge: newest in the catalogue, or name a release for the temporal holdout.",
    ),
    Check(
        "training_stars_sufficient",
        "No ClinVar allele of the training split has fewer review stars than the catalogue asks for "
        "(`packages.min_training_stars`).",
        "Materialise packages/split again; if the same rows come back, report them.",
    ),
    Check(
        "counts_add_up",
        "For every source, the windows and alleles read equal those in the training split plus those held out, and "
        "the counts equal the rows of the files.",
        "Materialise packages/split again; if the same rows come back, report them.",
    ),
    Check(
        "mix_served",
        "A simulated epoch of training serves the declared shares of origins of windows and of sources of edits, each "
        "within 2 percentage points.",
        "The sources are too small for the shares that the catalogue wants. Change packages.mix, or declare what can "
        "be served with packages.mix_declared.",
    ),
    Check(
        "visits_bounded",
        "A simulated epoch visits no window more often than the catalogue allows, and visits windows of every stratum.",
        "Lower the share of the named windows in packages.mix, raise packages.max_visits, or give the source more "
        "windows.",
    ),
    Check(
        "caches_match_windows",
        "Every cache key and cache row of a window refers to the states of exactly that window.",
        "The states belong to other windows than the package has. Materialise embeddings/cache and embeddings/corpus "
        "for the sources of the rows, then packages/split.",
    ),
    Check(
        "bench_alleles_scored",
        "Read from the written package, every ClinVar allele of an evaluation labelled P, LP, B or LB with the review "
        "stars of the policy is shown exactly once, or stated with the reason why no window shows it, and no label "
        "has fewer stars.",
        "The bench would miss or repeat the alleles of the rows. Materialise holdouts/manifest, then packages/split; "
        "report rows that come back.",
    ),
    Check(
        "training_alleles_present",
        "Training windows contain a gnomAD allele and a P or LP ClinVar allele, if the sources have alleles, or the "
        "catalogue declares that they may not (`packages.without_alleles`).",
        "Change holdouts or window tracks of the catalogue so that alleles are left for training, or declare that "
        "there are none with packages.without_alleles: true.",
    ),
)


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
        not_run: dict[str, JsonValue] = {NOT_RUN: "not run: a table does not have its schema"}
        return (schema, *(CheckResult(name, passed=False, figures=not_run) for name in PACKAGE_CHECKS[1:]))
    found = (
        schema,
        check_sequences(directory, info, sources, progress),
        check_mapped(directory, info, progress, scratch=directory),
        check_no_window(directory, info),
        check_no_allele(directory),
        check_no_corpus_row(directory, info),
        check_disjoint(directory, info),
        check_contexts(directory, sources.reference),
        check_labels(directory, info, sources),
        check_training_stars(directory, info),
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
        "held_out_contexts_right": (("held_out_alleles",), not sources.alleles.num_rows),
        "sequences_right": (("windows",), False),
        MAPPED_FORM_RIGHT: (("windows",), False),
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
    nouns = (HOLDOUT_INTERVALS, HOLDOUT_ALLELES, HOLDOUT_CORPUS, HOLDOUT_SIMILAR, HOLDOUT_HAPLOTYPES)
    declared: dict[str, TableSchema] = dict(zip(HOLDOUT_PATHS.values(), nouns, strict=True))
    declared |= {variants_path(split): PACKAGE_VARIANTS for split in Split}
    declared |= {controls_path(split): PACKAGE_CONTROLS for split in EVALUATION}
    declared[CONTEXTS_PATH] = PACKAGE_CONTEXTS
    problems: list[str] = []
    rows: list[dict[str, object]] = []
    for entry in info.files:
        if entry.path.startswith(f"{ARRAYS}/"):
            continue
        schema = declared.get(entry.path, PACKAGE_WINDOWS)
        try:
            found = pq.read_schema(directory / entry.path)
            schema.check(found, where=entry.path)
        except CorruptResourceError as err:
            problems.append(str(err))
            rows += [{"file": entry.path, **row} for row in schema.differences(found)]
        except pa.ArrowInvalid as err:
            problems.append(str(err))
            rows.append({"file": entry.path, "table": schema.name, "problem": str(err)})
    missing = sorted(set(declared) - {entry.path for entry in info.files})
    figures: dict[str, JsonValue] = {"files": len(info.files), "problems": [*problems], "missing": [*missing]}
    rows += [{"file": path, "table": declared[path].name, "problem": "the file is missing"} for path in missing]
    return CheckResult(SCHEMA_AS_DECLARED, passed=not problems and not missing, figures=figures, rows=rows)


def check_sequences(
    directory: Path, info: PackageInfo, sources: PackageSources, progress: Progress = NO_PROGRESS
) -> CheckResult:
    """Check hash, length and bases of every window; compare reference windows and their flanks with the genome."""
    figures = Counter(dict.fromkeys(("windows", "wrong_hash", "not_acgt", "wrong_size", "not_the_reference"), 0))
    wrong, contig, total = RowsAtFault(), None, sum(split.windows for split in info.splits.values())
    genome: Bases = b""
    for split in Split:
        for row in read_window_rows(directory, info, split):
            sequence = row["sequence"].encode()
            whole = row["left_flank"].encode() + sequence + row["right_flank"].encode()
            digest, flanks = hashlib.sha256(sequence), {len(row["left_flank"]), len(row["right_flank"])}
            sized = len(sequence) == row["window_bp"] and len(sequence) % TOKEN_BP == 0 and flanks == {info.margin_bp}
            identified = (digest.digest(), digest.hexdigest()[:32]) == (row["window_hash"], row["window_id"])
            faults = {
                "wrong_hash": not identified,
                "wrong_size": not sized,
                "not_acgt": bool(whole.translate(None, b"ACGT")),
            }
            expected = b""
            if row["origin"] == REFERENCE_ORIGIN:
                if row["contig"] != contig:
                    contig, genome = row["contig"], sources.reference(row["contig"])
                expected = genome[row["start"] - info.margin_bp : row["end"] + info.margin_bp]
                faults["not_the_reference"] = expected != whole
            figures["windows"] += 1
            progress.advance(figures["windows"], total, "windows checked")
            if any(faults.values()):
                figures.update(faults)
                wrong.add(split=split, **_shown_sequence(row, faults, expected, whole))
    return CheckResult("sequences_right", passed=not wrong, figures=dict(figures), rows=tuple(wrong))


def _shown_sequence(row: WrittenRow, faults: Mapping[str, bool], expected: bytes, whole: bytes) -> dict[str, object]:
    """Return a window at fault, with the first base that differs from the reference if that is the fault."""
    shown = {name: row[name] for name in ("origin", "contig", "start", "end", "window_id")}
    shown["fault"] = "; ".join(name.replace("_", " ") for name, found in faults.items() if found)
    if faults.get("not_the_reference"):
        at = next((n for n, (one, two) in enumerate(zip(expected, whole, strict=False)) if one != two), -1)
        shown |= {"first_difference_at_base": at, "expected": expected[at : at + 20], "got": whole[at : at + 20]}
        if at < 0:
            shown |= {"expected": f"{len(expected)} bases", "got": f"{len(whole)} bases"}
        else:
            shown |= {name: bytes(shown[name]).decode("ascii", "replace") for name in ("expected", "got")}
    return shown


def check_counts(directory: Path, info: PackageInfo, sources: PackageSources) -> CheckResult:
    """Check that the counts agree with each other, with the rows of the files and with the rows of the inputs."""
    counts, wrong = info.counts, list[dict[str, object]]()
    origins = Counter(row["origin"] for row in read_window_rows(directory, info, Split.TRAIN, ["origin"]))
    given = {REFERENCE_ORIGIN: sum(table.num_rows for table in sources.windows.values())}
    given |= {source: _rows_of(table) for source, table in sources.corpus.items()}
    for origin, n in given.items():
        outcomes = ("train", "held_out", "equal_to_held_out", "beside_evaluation")
        known = sum(counts.get(f"windows.{origin}.{outcome}", 0) for outcome in outcomes)
        if not counts.get(f"windows.{origin}.in", 0) == n == known:
            wrong.append({"what": f"windows of {origin}", "expected": f"{n} in the inputs", "got": f"{known} counted"})
        if counts.get(f"windows.{origin}.train", 0) != origins[origin]:
            stated_n = counts.get(f"windows.{origin}.train", 0)
            found_n = f"{origins[origin]} in the files"
            wrong.append({"what": f"windows of {origin} in train", "expected": found_n, "got": f"{stated_n} counted"})
    alleles = Counter(row["source"] for row in read_rows(directory / variants_path(Split.TRAIN), ("source",)))
    labelled = sources.clinvar if sources.clinvar_t0 is None else sources.clinvar_t0
    shards = {VariantSource.GNOMAD: sources.gnomad, VariantSource.CLINVAR: labelled}
    for source, tables in shards.items():
        n = sum(table.num_rows for contig, table in tables.items() if contig in sources.windows)
        train = counts.get(f"alleles.{source}.train", 0)
        known = train + sum(counts.get(f"alleles.{source}.{reason}", 0) for reason in ("held_out", UNDER_STARS))
        if n != known or train != alleles[source]:
            counted = f"{known} counted, {alleles[source]} in the file of train"
            wrong.append({"what": f"alleles of {source}", "expected": f"{n} in the inputs", "got": counted})
    for split in EVALUATION:
        rows = read_window_rows(directory, info, split, ["holdout", "frozen"])
        found = Counter(row["holdout"] if row["frozen"] else f"{row['holdout']} (to score)" for row in rows)
        stated = Counter({str(name): counts.get(f"{split}.{name}.windows", 0) for name in Holdout})
        stated += Counter({f"{name} (to score)": counts.get(f"{split}.{name}.scoring_windows", 0) for name in Holdout})
        wrong += [
            {
                "what": f"windows of {split}, {name}",
                "expected": f"{found[name]} in the files",
                "got": f"{stated[name]} counted",
            }
            for name in sorted({*stated, *found})
            if stated[name] != found[name]
        ]
    listed = {split: sum(entry.rows or 0 for entry in info.split_files(split)) for split in Split}
    wrong += [
        {
            "what": f"windows of {split} in package.json",
            "expected": f"{listed[split]} rows of its files",
            "got": f"{info.splits[split].windows} stated",
        }
        for split in Split
        if listed[split] != info.splits[split].windows
    ]
    problems: list[JsonValue] = [f"{row['what']}: {row['expected']}, {row['got']}" for row in wrong]
    figures: dict[str, JsonValue] = {"windows": sum(given.values()), "problems": problems}
    return CheckResult("counts_add_up", passed=not wrong, figures=figures, rows=wrong)


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
    wrong, columns = RowsAtFault(), ["origin", "contig", "start", "window_hash", "cache_key", "cache_row"]
    for split in Split:
        for row in read_window_rows(directory, info, split, columns):
            name = row["contig"] if row["origin"] == REFERENCE_ORIGIN else row["origin"]
            ref, at = caches.get(name), row["cache_row"]
            key = ref.key if ref else None
            faults = {"wrong_key": row["cache_key"] != key, "wrong_row": False}
            if ref is not None:
                other = not 0 <= at < ref.rows or hashes[name][at].as_py() != row["window_hash"]
                faults["wrong_row"] = other
            figures.update({"windows": 1, "with_cache": ref is not None, **faults})
            if any(faults.values()):
                fault = "; ".join(name.replace("_", " ") for name, found in faults.items() if found)
                wrong.add(split=split, **row, fault=fault, expected_key=key)
    sizes = {name: (len(column), caches[name].rows) for name, column in hashes.items()}
    off = [
        {"cache_key": caches[name].key, "fault": f"wrong number of rows for {name}", "expected": n, "got": rows}
        for name, (n, rows) in sizes.items()
        if n != rows
    ]
    figures["wrong_size"] = len(off)
    passed = not any(n for name, n in figures.items() if name.startswith("wrong"))
    return CheckResult("caches_match_windows", passed=passed, figures=dict(figures), rows=[*off, *wrong])


def _rows_of(table: pa.Table | Path) -> int:
    return int(pq.read_metadata(table).num_rows if isinstance(table, Path) else table.num_rows)
