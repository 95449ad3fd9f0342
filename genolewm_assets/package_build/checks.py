"""Check that a written package is well formed. Not here: leaks and what trainers receive (``audit``)."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, combinations, islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import EVALUATION, TOKEN_BP, Holdout, IntervalArray, Split, meets
from genolewm_assets.holdouts import (
    HOLDOUT_ALLELES,
    HOLDOUT_CORPUS,
    HOLDOUT_HAPLOTYPES,
    HOLDOUT_INTERVALS,
    HOLDOUT_SIMILAR,
    Buffer,
)
from genolewm_assets.memory_mapped import MAPPED_FORM_RIGHT, check_mapped
from genolewm_assets.package_build.cache_checks import add_rows, check_caches
from genolewm_assets.package_build.epoch_checks import check_mix, check_training_alleles, check_visits
from genolewm_assets.package_build.rows import UNDER_STARS
from genolewm_assets.package_build.sources import PackageSources
from genolewm_assets.packages import (
    CONTEXTS_PATH,
    HOLDOUT_PATHS,
    PACKAGE_CONTEXTS,
    PACKAGE_CONTROLS,
    PACKAGE_VARIANTS,
    PACKAGE_WINDOWS,
    PIECE_WINDOWS,
    REFERENCE_ORIGIN,
    Package,
    PackageInfo,
    VariantSource,
    controls_path,
    piece_path,
    variants_path,
)
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.store.artefacts import NOT_RUN, Check, CheckResult, RowsAtFault, stating_compared
from genolewm_assets.store.files import JsonValue
from genolewm_assets.store.tables import SCHEMA_AS_DECLARED, TableSchema
from genolewm_assets.variants import ALLELE_KEY, Bools, Int64s, allele_keys, as_bools
from genolewm_assets.windows.corpus import CORPUS_WINDOWS, parse_piece
from genolewm_assets.windows.reference import WINDOWS

#: The checks, in the order of the results of :func:`check_package`.
PACKAGE_CHECKS = (
    SCHEMA_AS_DECLARED,
    Check(
        "sequences_right",
        "Every window that is written here has the SHA-256 and the length of its row, and consists of ACGT only, "
        "flanks included; windows/index and corpus/windows check those that the package refers to.",
        "Materialise windows/index and corpus/windows of the contigs and sources of the rows, then packages/split; "
        "report rows that come back.",
    ),
    MAPPED_FORM_RIGHT,
    Check(
        "splits_disjoint",
        "No allele is in two splits, no window is in both validation and test, and no training window overlaps a "
        "held-out interval or has the hash of an evaluation window of a holdout with intervals.",
        "Do not train on this package: it is not published, and the former one stays in use. Materialise "
        "holdouts/manifest and then packages/split of the release; if the same rows come back, report them.",
    ),
    Check(
        "counts_add_up",
        "For every source, the windows and alleles read equal those in the training split plus those held out, and "
        "all counts, bench alleles included, equal the rows of the files.",
        "Materialise packages/split again; if the same rows come back, report them.",
    ),
    Check(
        "mix_served",
        "The plan of an epoch has the declared shares of origins of windows and of sources of edits, each within 2 "
        "percentage points; `mix_emitted` of packages/audit counts them in what is emitted.",
        "The sources are too small for the shares that the catalogue wants. Change packages.mix, or declare what can "
        "be served with packages.mix_declared.",
    ),
    Check(
        "visits_bounded",
        "The plan of an epoch visits no window more often than the catalogue allows, and visits windows of every "
        "stratum.",
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
    """Run every check of :data:`PACKAGE_CHECKS`; if the schemas are wrong, the others are not run and fail."""
    schema, package = check_schemas(directory, info), Package(directory, info, {})
    if not schema.passed:
        not_run: dict[str, JsonValue] = {NOT_RUN: "not run: a table does not have its schema"}
        return (schema, *(CheckResult(name, passed=False, figures=not_run) for name in PACKAGE_CHECKS[1:]))
    caches = check_caches(package, sources)
    return (
        schema,
        _of_windows(check_sequences(package, progress)),
        _of_windows(check_mapped(directory, info, progress, scratch=directory)),
        check_disjoint(package),
        check_counts(package, sources),
        check_mix(info),
        check_visits(info),
        stating_compared(
            caches, int(str(caches.figures["with_cache"])), "declared without states", declared=not sources.caches
        ),
        check_training_alleles(package),
    )


def _of_windows(check: CheckResult) -> CheckResult:
    """State it if a check compared no window."""
    n = check.figures.get("windows")
    return stating_compared(check, n, "there are no windows") if isinstance(n, int) else check


def check_schemas(directory: Path, info: PackageInfo) -> CheckResult:
    """Compare columns, types and nullability of every table file with its declared schema; report missing tables."""
    nouns = (HOLDOUT_INTERVALS, HOLDOUT_ALLELES, HOLDOUT_CORPUS, HOLDOUT_SIMILAR, HOLDOUT_HAPLOTYPES)
    declared: dict[str, TableSchema] = dict(zip(HOLDOUT_PATHS.values(), nouns, strict=True))
    declared |= {variants_path(split): PACKAGE_VARIANTS for split in Split}
    declared |= {controls_path(split): PACKAGE_CONTROLS for split in EVALUATION}
    declared[CONTEXTS_PATH] = PACKAGE_CONTEXTS
    problems: list[str] = []
    rows: list[dict[str, object]] = []
    declared |= {
        piece_path(ref.source, PIECE_WINDOWS): WINDOWS if ref.origin == REFERENCE_ORIGIN else CORPUS_WINDOWS
        for ref in info.pieces
    }
    for entry in info.files:
        if not entry.path.endswith(".parquet"):
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


def check_sequences(package: Package, progress: Progress = NO_PROGRESS) -> CheckResult:
    """Check hash, length and letters of every window and its flanks, but those of pieces: their assets check them."""
    figures = Counter(dict.fromkeys(("windows", "wrong_hash", "wrong_size", "not_acgt"), 0))
    wrong, total = RowsAtFault(), sum(entry.rows or 0 for s in Split for entry in package.info.split_files(s))
    bases = ["sequence", "left_flank", "right_flank"]
    shown = ["origin", "contig", "start", "end", "window_id"]
    for split in Split:
        for batch in package.own_batches(split, [*bases, *shown, "window_bp", "window_hash"]):
            digests = [hashlib.sha256(text.encode()) for text in batch["sequence"].to_pylist()]
            stated = zip(batch["window_hash"].to_pylist(), batch["window_id"].to_pylist(), strict=True)
            sizes, *flanks = (pc.binary_length(batch[name]).to_numpy() for name in bases)
            margins = [flank != package.info.margin_bp for flank in flanks]
            letters = [as_bools(pc.match_substring_regex(batch[name], "[^ACGT]")) for name in bases]
            faults: dict[str, Bools] = {
                "wrong_hash": np.array(
                    [(one.digest(), one.hexdigest()[:32]) != pair for one, pair in zip(digests, stated, strict=True)],
                    dtype=bool,
                ),
                "wrong_size": np.logical_or.reduce(
                    [sizes != batch["window_bp"].to_numpy(), sizes % TOKEN_BP > 0, *margins]
                ),
                "not_acgt": np.logical_or.reduce(letters),
            }
            figures.update({"windows": batch.num_rows, **{name: int(at.sum()) for name, at in faults.items()}})
            progress.advance(figures["windows"], total, "windows checked")
            add_rows(wrong, split, batch.select(shown), faults)
    return CheckResult("sequences_right", passed=not wrong, figures=dict(figures), rows=tuple(wrong))


#: Batches of training windows that are compared at once.
_BATCHES_AT_ONCE = 64
_SHOWN = ["origin", "record_id", "window_index", "window_id", "contig", "start", "end"]


def check_disjoint(package: Package) -> CheckResult:
    """Check that splits share no window and no allele, but for the windows of a holdout with alleles only."""
    wrong, figures = RowsAtFault(), Counter[str]()
    for split, fault, rows in chain(_shared_windows(package), _shared_alleles(package)):
        figures[fault.replace(" ", "_")] += rows.num_rows
        for row in rows.slice(0, 100).to_pylist():
            wrong.add(split=split, **row, fault=fault)
    return CheckResult("splits_disjoint", passed=not any(figures.values()), figures=dict(figures), rows=tuple(wrong))


def _shared_windows(package: Package) -> Iterator[tuple[Split, str, pa.Table]]:
    margin, intervals = package.info.margin_bp, package.holdouts("intervals", ["holdout", "contig", "start", "end"])
    areas = pc.unique(intervals["holdout"])
    columns = ["holdout", "contig", "start", "end", "window_hash"]
    held = {s: package.windows(s, columns) for s in EVALUATION}
    held = {s: table.filter(pc.is_in(table["holdout"], value_set=areas)) for s, table in held.items()}
    hashes = pa.concat_tables([table.select(["window_hash"]) for table in held.values()])["window_hash"]
    within = _areas([(intervals, 0)])
    beside = _areas([(intervals, 0), *((table, margin) for table in held.values())])
    batches = package.window_batches(Split.TRAIN, [*_SHOWN, "strand", "window_hash"])
    while some := list(islice(batches, _BATCHES_AT_ONCE)):
        train = pa.Table.from_batches(some)
        placed = train.filter(pc.is_valid(train["start"]))
        reverse = as_bools(pc.fill_null(pc.equal(placed["strand"], "-"), False))
        faults = {"in a held-out interval": _meeting(placed, within, margin * reverse, margin * ~reverse)}
        if package.info.policy.get("buffer") == Buffer.WINDOWS:
            flanks = np.full(placed.num_rows, margin)
            faults["beside evaluation"] = _meeting(placed, beside, flanks, flanks)
        for fault, found in faults.items():
            yield Split.TRAIN, f"train windows {fault}", placed.select(_SHOWN).filter(pa.array(found))
        equal = train.filter(pc.is_in(train["window_hash"], value_set=hashes))
        yield Split.TRAIN, "train windows equal to evaluation", equal.select(_SHOWN)
    validation, test = (table.select(["contig", "start"]) for table in held.values())
    both = validation.join(test, ["contig", "start"], join_type="left semi")
    yield Split.VALIDATION, "windows in validation and test", both


def _shared_alleles(package: Package) -> Iterator[tuple[Split, str, pa.Table]]:
    for contig in sorted(package.variant_contigs()):
        ours = pc.field("chrom") == contig
        alleles = {split: package.variants(split, ALLELE_KEY, where=ours) for split in Split}
        keys = {split: allele_keys(table) for split, table in alleles.items()}
        for split, other in combinations(Split, 2):
            shared = pc.is_in(keys[split], value_set=keys[other])
            yield split, f"alleles in {split} and {other}", alleles[split].filter(shared)


def _areas(held: Iterable[tuple[pa.Table, int]]) -> dict[str, list[IntervalArray]]:
    """Return the places of the rows of tables, each made longer on either side, by contig."""
    areas = defaultdict[str, list[IntervalArray]](list)
    for table, margin in held:
        for contig in pc.unique(table["contig"]).to_pylist():
            ours = table.filter(pc.equal(table["contig"], contig))
            bounds = ours["start"].to_numpy() - margin, ours["end"].to_numpy() + margin
            areas[contig].append(IntervalArray.from_unsorted(*bounds).merge())
    return areas


def _meeting(windows: pa.Table, areas: Mapping[str, list[IntervalArray]], before: Int64s, behind: Int64s) -> Bools:
    """Tell which windows, made longer on either side, share a base with an area."""
    start, end = windows["start"].to_numpy() - before, windows["end"].to_numpy() + behind
    found: Bools = np.zeros(windows.num_rows, bool)
    for contig in pc.unique(windows["contig"]).to_pylist():
        at = np.flatnonzero(as_bools(pc.equal(windows["contig"], contig)))
        for area in areas.get(contig, ()):
            found[at] |= meets(area, start[at], end[at])
    return found


def check_counts(package: Package, sources: PackageSources) -> CheckResult:
    """Check that the counts agree with each other, with the rows of the files and with the rows of the inputs."""
    compared = [*_count_windows(package, sources), *_count_alleles(package, sources), *_count_evaluation(package)]
    wrong = [{"what": what, "expected": expected, "got": got} for what, expected, got in compared if expected != got]
    problems: list[JsonValue] = [f"{row['what']}: {row['expected']} expected, {row['got']} counted" for row in wrong]
    windows = sum(table.num_rows for table in sources.windows.values()) + sum(map(_rows_of, sources.corpus.values()))
    figures: dict[str, JsonValue] = {"windows": windows, "problems": problems}
    return CheckResult("counts_add_up", passed=not wrong, figures=figures, rows=wrong)


def _count_windows(package: Package, sources: PackageSources) -> Iterator[tuple[str, int, int]]:
    """Yield what is counted, and its number by the inputs or files and by the counts."""
    counts, origins = package.info.counts, Counter[str]()
    for batch in package.window_batches(Split.TRAIN, ["origin"]):
        origins += _values(batch["origin"])
    given = {REFERENCE_ORIGIN: sum(table.num_rows for table in sources.windows.values())}
    for piece, table in sources.corpus.items():
        origin = str(parse_piece(piece)[0])
        given[origin] = given.get(origin, 0) + _rows_of(table)
    for origin, n in given.items():
        outcomes = ("train", "held_out", "equal_to_held_out", "beside_evaluation")
        yield f"windows of {origin} by outcome", n, sum(counts.get(f"windows.{origin}.{each}", 0) for each in outcomes)
        yield f"windows of {origin}", n, counts.get(f"windows.{origin}.in", 0)
        yield f"windows of {origin} in train", origins[origin], counts.get(f"windows.{origin}.train", 0)


def _count_alleles(package: Package, sources: PackageSources) -> Iterator[tuple[str, int, int]]:
    counts, alleles = package.info.counts, Counter[str]()
    for batch in package.variant_batches(Split.TRAIN, ["source"]):
        alleles += _values(batch["source"])
    labelled = sources.clinvar if sources.clinvar_t0 is None else sources.clinvar_t0
    shards = {VariantSource.GNOMAD: sources.gnomad, VariantSource.CLINVAR: labelled}
    for source, tables in shards.items():
        n = sum(table.num_rows for contig, table in tables.items() if contig in sources.windows)
        outcomes = ("train", "held_out", UNDER_STARS)
        yield f"alleles of {source}", n, sum(counts.get(f"alleles.{source}.{each}", 0) for each in outcomes)
        yield f"alleles of {source} in train", alleles[source], counts.get(f"alleles.{source}.train", 0)


def _count_evaluation(package: Package) -> Iterator[tuple[str, int, int]]:
    counts = package.info.counts
    for split in EVALUATION:
        windows = _pairs(package.windows(split, ["holdout", "frozen"]), "frozen")
        alleles = _pairs(package.variants(split, ["holdout", "source"]), "source")
        scored = _pairs(package.variants(split, ["holdout", "scoring"]), "scoring")
        for holdout in map(str, Holdout):
            for noun, frozen in (("windows", True), ("scoring_windows", False)):
                name = f"{split}.{holdout}.{noun}"
                yield name, windows[holdout, frozen], counts.get(name, 0)
            for source in VariantSource:
                name = f"{split}.{holdout}.{source}_alleles"
                yield name, alleles[holdout, source], counts.get(name, 0)
            head = f"scoring.{holdout}.{split}."
            found = {str(name): n for (of, name), n in scored.items() if of == holdout and name is not None}
            stated = {name.removeprefix(head): n for name, n in counts.items() if name.startswith(head) and n}
            yield from ((head + name, found.get(name, 0), stated.get(name, 0)) for name in sorted({*found, *stated}))
    for split in Split:
        listed = sum(entry.rows or 0 for entry in package.info.split_files(split))
        listed += sum(ref.training for ref in package.info.pieces) if split is Split.TRAIN else 0
        yield f"windows of {split} in package.json", listed, package.info.splits[split].windows


def _values(column: pa.ChunkedArray) -> Counter[str]:
    return Counter({each["values"]: each["counts"] for each in pc.value_counts(column).to_pylist()})


def _pairs(table: pa.Table, name: str) -> Counter[tuple[str, object]]:
    groups = table.group_by(["holdout", name]).aggregate([([], "count_all")]).to_pylist()
    return Counter({(each["holdout"], each[name]): each["count_all"] for each in groups})


def _rows_of(table: pa.Table | Path) -> int:
    return int(pq.read_metadata(table).num_rows if isinstance(table, Path) else table.num_rows)
