"""Write a package into a folder. Not here: which row goes where (``plan``, ``split``), publication (``store``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import EVALUATION, HARMFUL, Holdout, IntervalArray, Split, meets
from genolewm_assets.holdouts import (
    HOLDOUT_ALLELES,
    HOLDOUT_CORPUS,
    HOLDOUT_HAPLOTYPES,
    HOLDOUT_INTERVALS,
    HOLDOUT_SIMILAR,
    HoldoutIndex,
)
from genolewm_assets.memory_mapped import INDEX, SplitWriter
from genolewm_assets.package_build.card import render_card
from genolewm_assets.package_build.checks import check_package
from genolewm_assets.package_build.croissant import render_croissant
from genolewm_assets.package_build.emitting import alleles_inside
from genolewm_assets.package_build.epoch_checks import plan_of_epoch
from genolewm_assets.package_build.plan import PackagePlan, plan_package
from genolewm_assets.package_build.rows import (
    HARMFUL_UNDER_STARS,
    UNDER_STARS,
    context_tables,
    control_rows,
    reference_rows,
    sort_variants,
    variant_rows,
)
from genolewm_assets.package_build.sources import PackageSources
from genolewm_assets.package_build.split import split_alleles
from genolewm_assets.packages import (
    CARD,
    CONTEXTS_PATH,
    CROISSANT,
    GROUP_ROWS,
    HOLDOUT_PATHS,
    PACKAGE_CONTEXTS,
    PACKAGE_CONTROLS,
    PACKAGE_FILE,
    PACKAGE_VARIANTS,
    PIECE_BASES,
    PIECE_TRAINS,
    PIECE_WINDOWS,
    POSSIBLE,
    REFERENCE_ORIGIN,
    Membership,
    Package,
    PackageInfo,
    PackageMix,
    PackageTableWriter,
    PieceRef,
    SplitInfo,
    VariantSource,
    WindowShardWriter,
    arrays_path,
    controls_path,
    measure_tables,
    package_rows,
    piece_path,
    split_digest,
    variants_path,
    write_package_table,
)
from genolewm_assets.progress import NO_PROGRESS, ByteCount, Progress
from genolewm_assets.store.artefacts import BuildReport, FileEntry, list_files
from genolewm_assets.store.files import FileDigests, write_atomic
from genolewm_assets.store.tables import give_memory_back, memory_given_back, read_batches
from genolewm_assets.variants import Bools, allele_spans, as_bools
from genolewm_assets.windows.corpus import parse_piece

#: Counts of the holdouts that the package repeats, for its card.
_CHOSEN = ("haplotype_blocks", "common_alleles", "haplotypes.", "similar.")


def write_package(work_dir: Path, sources: PackageSources, *, progress: Progress = NO_PROGRESS) -> BuildReport:
    """Write a package into an empty folder and check the written files.

    Parameters
    ----------
    work_dir
        Empty folder; the store publishes it later and adds ``manifest.json``.
    progress
        Receives the numbers of windows written, bytes hashed and windows checked.

    Returns
    -------
    BuildReport
        Counts, rows by file, and results of :data:`genolewm_assets.package_build.checks.PACKAGE_CHECKS`.

    Raises
    ------
    CorruptResourceError
        If the input tables do not match, for example if a window extends beyond its contig, or a holdout table does not
        have its schema.
    """
    digests = FileDigests(work_dir)
    with memory_given_back():
        written = _write_tables(work_dir, sources, digests, progress)
    arrays = [path for path in list_files(work_dir) if path.endswith((".npy", f"/{INDEX}"))]
    new = [path for path in (*written.rows, *arrays) if not digests.known(path)]
    count = ByteCount(progress, sum((work_dir / path).stat().st_size for path in new))
    with memory_given_back():
        files = measure_tables(digests, {**written.rows, **dict.fromkeys(arrays)}, count)
        info = _with_epoch(work_dir, _describe(sources, written, files))
    write_atomic(work_dir / PACKAGE_FILE, info.to_bytes())
    write_atomic(work_dir / CARD, render_card(info).encode())
    write_atomic(work_dir / CROISSANT, render_croissant(info))
    with memory_given_back():
        checks = check_package(work_dir, info, sources, progress=progress)
    stated = {"pieces_linked": len(written.pieces) - written.copied, "pieces_copied": written.copied}
    return BuildReport(counts=info.counts, rows=written.rows, checks=checks, run=stated, digests=digests)


class _Written(NamedTuple):
    """Rows by path, counts of the package, the pieces that it refers to, and how many of them are copies."""

    rows: dict[str, int]
    counts: dict[str, int]
    pieces: tuple[PieceRef, ...]
    copied: int


def _write_tables(work_dir: Path, sources: PackageSources, digests: FileDigests, progress: Progress) -> _Written:
    """Link the pieces and write all tables and arrays."""
    holdouts = HoldoutIndex(
        sources.intervals, sources.alleles, sources.corpus_rows, sources.similar, contigs=sources.contigs
    )
    plan = plan_package(sources, holdouts)
    contexts = context_tables(sources.alleles, sources.reference)
    rows = {CONTEXTS_PATH: write_package_table(work_dir / CONTEXTS_PATH, contexts, PACKAGE_CONTEXTS)}
    give_memory_back()
    pieces, copied = _link_pieces(work_dir, sources, plan, digests)
    rows |= {piece_path(ref.source, PIECE_WINDOWS): ref.rows for ref in pieces}
    with ExitStack() as stack:
        arrays = {
            split: stack.enter_context(
                SplitWriter(
                    work_dir / arrays_path(split),
                    split,
                    min_stars=sources.policy.min_stars,
                    contexts=read_batches(work_dir / CONTEXTS_PATH, GROUP_ROWS),
                )
            )
            for split in Split
        }
        for ref in pieces:
            arrays[Split.TRAIN].add_piece(work_dir, ref, sources.cache_of(ref.source), margin_bp=sources.margin_bp)
        rows |= _write_windows(work_dir, sources, plan, arrays, progress)
        variants, variant_counts = _write_variants(work_dir, sources, plan, holdouts, arrays)
        for writer in arrays.values():
            writer.finish(sources.alleles)
    rows |= variants
    for noun, tables, schema in (
        ("intervals", [sources.intervals], HOLDOUT_INTERVALS),
        ("alleles", [sources.alleles], HOLDOUT_ALLELES),
        ("corpus", [sources.corpus_rows], HOLDOUT_CORPUS),
        ("similar", [sources.similar], HOLDOUT_SIMILAR),
        ("haplotypes", [sources.haplotypes], HOLDOUT_HAPLOTYPES),
    ):
        rows[HOLDOUT_PATHS[noun]] = write_package_table(work_dir / HOLDOUT_PATHS[noun], tables, schema)
    chosen = {name: n for name, n in sources.holdout_counts.items() if name.startswith(_CHOSEN)}
    return _Written(rows, {**plan.counts, **variant_counts, **chosen}, pieces, copied)


def _link_pieces(
    work_dir: Path, sources: PackageSources, plan: PackagePlan, digests: FileDigests
) -> tuple[tuple[PieceRef, ...], int]:
    """Link pieces with training windows and write which of their rows train; return them, and how many are copies."""
    found, copied = list[PieceRef](), 0
    for source, piece in sources.pieces.items():
        (rows,) = (entry.rows or 0 for entry in piece.manifest.files if entry.path == PIECE_WINDOWS)
        trains = np.zeros(rows, dtype=np.bool_)
        trains[plan.train[source] if source in plan.train else plan.corpus[source]] = True
        if not trains.any():
            continue
        linked = [
            digests.link(piece.directory, name, piece_path(source, name)) for name in (PIECE_WINDOWS, PIECE_BASES)
        ]
        copied += not all(linked)
        np.save(work_dir / piece_path(source, PIECE_TRAINS), trains)
        origin = REFERENCE_ORIGIN if source in plan.train else str(parse_piece(source)[0])
        found.append(PieceRef(source, origin, rows, int(trains.sum()), piece.manifest.sha256))
    return tuple(found), copied


def _describe(sources: PackageSources, written: _Written, files: tuple[FileEntry, ...]) -> PackageInfo:
    rows, training = written.rows, sum(ref.training for ref in written.pieces)
    splits = {
        str(split): SplitInfo(
            windows=sum(n for path, n in rows.items() if path.startswith(f"data/{split}-"))
            + (training if split is Split.TRAIN else 0),
            variants=rows[variants_path(split)],
            controls=rows.get(controls_path(split), 0),
            sha256=split_digest(files, split),
        )
        for split in Split
    }
    return PackageInfo(
        release=sources.release,
        genome_digest=sources.genome_digest,
        margin_bp=sources.margin_bp,
        caches=tuple(sources.caches),
        pieces=written.pieces,
        policy=sources.policy.as_recipe(),
        counts=written.counts,
        splits=splits,
        files=files,
        mix=sources.mix,
        knowledge=sources.knowledge,
        without_alleles=sources.without_alleles,
        sources=dict(sources.versions),
        terms=dict(sources.terms),
    )


def _with_epoch(work_dir: Path, info: PackageInfo) -> PackageInfo:
    """Add the plan of an epoch; where the possible shares are declared, state them."""
    epoch = plan_of_epoch(Package(work_dir, info, {}))
    if info.mix.declared != POSSIBLE:
        return replace(info, epoch=epoch)
    declared = epoch.planned if epoch.tuples else info.mix.wanted
    return replace(info, epoch=epoch, mix=replace(info.mix, declared=declared))


def _write_windows(
    work_dir: Path, sources: PackageSources, plan: PackagePlan, arrays: Mapping[Split, SplitWriter], progress: Progress
) -> dict[str, int]:
    """Write controls and windows of no piece, the genome's first, then the corpus; return the rows by path."""
    own = {split: plan.windows_in(split, sources.pieces) for split in Split}
    total, done = sum(own.values()), 0
    with ExitStack() as stack:
        controls = {
            split: stack.enter_context(PackageTableWriter(work_dir / controls_path(split), PACKAGE_CONTROLS))
            for split in EVALUATION
        }
        writers = {
            split: stack.enter_context(WindowShardWriter(work_dir, split, n))
            for split, n in own.items()
            if n or split is not Split.TRAIN or not sources.pieces
        }
        for member, table in chain(_reference_tables(sources, plan, controls), _corpus_tables(sources, plan)):
            writers[member.split].write(table)
            arrays[member.split].add_windows(table)
            progress.advance(done := done + table.num_rows, total, "windows")
    rows = {path: n for writer in writers.values() for path, n in writer.rows.items()}
    return rows | {controls_path(split): writer.rows for split, writer in controls.items()}


def _reference_tables(
    sources: PackageSources, plan: PackagePlan, controls: Mapping[Split, PackageTableWriter]
) -> Iterator[tuple[Membership, pa.Table]]:
    """Yield reference windows contig by contig, at most one row group at a time; write their controls."""
    for contig, windows in sources.windows.items():
        members = {} if contig in sources.pieces else {Membership(Split.TRAIN): plan.train[contig]}
        members |= {
            Membership(split, holdout): by_contig[contig]
            for (holdout, split), by_contig in plan.evaluation.items()
            if contig in by_contig
        }
        if not any(len(rows) for rows in members.values()):
            continue
        sequence = sources.reference(contig)
        for member, rows in members.items():
            none, key = np.zeros(0, np.int64), (member.holdout or "", member.split)
            shown = plan.controls.get(key, {}).get(contig, none)
            frozen = rows if member.holdout is None else plan.frozen.get(key, {}).get(contig, none)
            for some in np.array_split(rows, -(-len(rows) // GROUP_ROWS) or 1):
                table = reference_rows(
                    windows,
                    some,
                    sequence,
                    margin_bp=sources.margin_bp,
                    member=member,
                    cache=sources.cache_of(contig),
                    frozen=np.isin(some, frozen),
                )
                if len(shown):
                    controls[member.split].write(control_rows(table.filter(pa.array(np.isin(some, shown)))))
                yield member, table


def _corpus_tables(sources: PackageSources, plan: PackagePlan) -> Iterator[tuple[Membership, pa.Table]]:
    member = Membership(Split.TRAIN)
    for source, kept in ((source, kept) for source, kept in plan.corpus.items() if source not in sources.pieces):
        cache, origin = sources.cache_of(source), str(parse_piece(source)[0])
        for first, batch in sources.corpus_batches(source):
            ours = kept[first : first + batch.num_rows]
            rows = first + np.flatnonzero(ours)
            yield member, package_rows(batch.filter(pa.array(ours)), rows, origin, member=member, cache=cache)
            # The C library keeps what is freed between pieces in use: 100 MB more without this.
            give_memory_back()


def _write_variants(
    work_dir: Path,
    sources: PackageSources,
    plan: PackagePlan,
    holdouts: HoldoutIndex,
    arrays: Mapping[Split, SplitWriter],
) -> tuple[dict[str, int], dict[str, int]]:
    """Write the alleles of all splits; return rows by path, and numbers of alleles by source and outcome."""
    counts: Counter[str] = Counter()
    with ExitStack() as stack:
        writers = {
            split: stack.enter_context(PackageTableWriter(work_dir / variants_path(split), PACKAGE_VARIANTS))
            for split in Split
        }
        for contig in sources.windows:
            give_memory_back()
            found = _variants_of(sources, plan, holdouts, contig, counts)
            for split, writer in writers.items():
                rows_of_contig = sort_variants(found.pop(split))
                writer.write(rows_of_contig)
                arrays[split].add_variants(rows_of_contig)
    rows = {variants_path(split): writer.rows for split, writer in writers.items()}
    return rows, dict(sorted(counts.items()))


def _variants_of(
    sources: PackageSources, plan: PackagePlan, holdouts: HoldoutIndex, contig: str, counts: Counter[str]
) -> dict[Split, list[pa.Table]]:
    """Return the alleles of one contig by split; count them by source and outcome in ``counts``."""
    found: dict[Split, list[pa.Table]] = {split: [] for split in Split}
    for source, table, splits in _shards(sources, contig):
        masks = split_alleles(table, plan.regions[contig], holdouts)
        if Split.TRAIN in splits:
            counts[f"alleles.{source}.held_out"] += int(np.count_nonzero(~masks[None][Split.TRAIN]))
            if source is VariantSource.CLINVAR:
                masks[None][Split.TRAIN] &= ~_under_stars(table, masks[None][Split.TRAIN], sources.mix, counts)
            rows = plan.train[contig], np.union1d(plan.train[contig], plan.beside[contig])
            bounds = [sources.windows[contig][name].to_numpy() for name in ("start", "end")]
            covered = [IntervalArray(*(bound[each] for bound in bounds)).merge() for each in rows]
            counts.update(_count_alleles(source, table, masks[None][Split.TRAIN], *covered))
        for holdout, by_split in masks.items():
            for split in by_split.keys() & splits:
                mask = by_split[split]
                if holdout == Holdout.HAPLOTYPES:
                    # Its streams emit what stands in its windows: an allele elsewhere would serve nothing.
                    shown = plan.evaluation[holdout, split].get(contig, np.zeros(0, np.int64))
                    inside = alleles_inside(table, sources.windows[contig], shown)
                    counts[f"{split}.{holdout}.{source}_alleles_in_no_window"] += int(np.count_nonzero(mask & ~inside))
                    mask = mask & inside
                kept, scoring = pa.array(mask), None
                if source is VariantSource.CLINVAR and split is not Split.TRAIN:
                    scoring = plan.bench.outcome(contig, holdout, split, table.num_rows).filter(kept)
                members = variant_rows(source, table.filter(kept), Membership(split, holdout), scoring)
                found[split].append(members)
                if holdout is not None:
                    counts[f"{split}.{holdout}.{source}_alleles"] += members.num_rows
    return found


def _shards(sources: PackageSources, contig: str) -> Iterator[tuple[VariantSource, pa.Table, frozenset[Split]]]:
    """Yield a contig's allele tables, each with its source and splits; T0 provides train if training knows no more."""
    evaluation, everything = frozenset(EVALUATION), frozenset(Split)
    if contig in sources.gnomad:
        yield VariantSource.GNOMAD, sources.gnomad[contig], everything
    earlier = sources.clinvar_t0
    if contig in sources.clinvar:
        yield VariantSource.CLINVAR, sources.clinvar[contig], everything if earlier is None else evaluation
    if earlier is not None and contig in earlier:
        yield VariantSource.CLINVAR, earlier[contig], frozenset({Split.TRAIN})


def _count_alleles(
    source: VariantSource, table: pa.Table, train: Bools, covered: IntervalArray, unbuffered: IntervalArray
) -> dict[str, int]:
    """Count all alleles, those in train, those of them in no training window, and those beside evaluation alone."""
    start, end = allele_spans(table)
    lost = train & ~meets(covered, start, end)
    outcomes = {
        "in": table.num_rows,
        "train": int(np.count_nonzero(train)),
        "train_in_no_window": int(np.count_nonzero(lost)),
        "train_beside_evaluation": int(np.count_nonzero(lost & meets(unbuffered, start, end))),
    }
    return {f"alleles.{source}.{outcome}": n for outcome, n in outcomes.items()}


def _under_stars(clinvar: pa.Table, train: Bools, mix: PackageMix, counts: Counter[str]) -> Bools:
    """Tell which alleles have too few review stars for train, and count those that ``train`` has; null is no star."""
    stars = pc.fill_null(clinvar["stars"], 0).to_numpy()
    under: Bools = stars < mix.min_training_stars
    harmful = as_bools(pc.is_in(clinvar["label"], value_set=pa.array(sorted(HARMFUL))))
    for name, found in ((UNDER_STARS, under), (HARMFUL_UNDER_STARS, under & harmful)):
        counts[f"alleles.{VariantSource.CLINVAR}.{name}"] += int(np.count_nonzero(train & found))
    return under
