"""Plan the rows of a package; sequences are read later, by ``writer``. Not here: one contig (``split``)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.genome import EVALUATION, Holdout, Split, meets, reverse_complement
from genolewm_assets.holdouts import Buffer, HoldoutIndex
from genolewm_assets.package_build.bench import BenchPlan, plan_bench
from genolewm_assets.package_build.emitting import windows_that_emit
from genolewm_assets.package_build.sharing import EvaluationBases, Placed, placed_corpus
from genolewm_assets.package_build.sources import PackageSources
from genolewm_assets.package_build.split import RoleRegions, WindowSplit, choose_windows, find_regions, split_windows
from genolewm_assets.packages import REFERENCE_ORIGIN
from genolewm_assets.variants import Bools, Int64s
from genolewm_assets.windows.corpus import parse_piece

#: Columns of a corpus table that decide about its windows.
_CORPUS_COLUMNS = [
    "source", "record_id", "window_index", "window_hash", "placed_contig", "placed_start", "placed_end", "strand",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class PackagePlan:
    """Rows of the package in its input tables: row numbers, int64, 1-D and ascending; of the corpus a mask."""

    #: ``train``, ``beside``: reference windows of train, and those that ``holdouts.buffer`` removes from it, by contig.
    train: Mapping[str, Int64s]
    beside: Mapping[str, Int64s]
    #: Reference windows of validation and test, by (holdout, split), then by contig.
    evaluation: Mapping[tuple[str, Split], Mapping[str, Int64s]]
    #: Bench alleles, and the windows that show them; these windows are in ``evaluation`` too.
    bench: BenchPlan
    #: Subset of ``evaluation`` that is in the stream of windows.
    frozen: Mapping[tuple[str, Split], Mapping[str, Int64s]]
    #: Subset of ``frozen`` for which control windows are written.
    controls: Mapping[tuple[str, Split], Mapping[str, Int64s]]
    #: Corpus windows of train, by piece: bool, shape (n_rows of the piece,).
    corpus: Mapping[str, Bools]
    regions: Mapping[str, RoleRegions]
    #: Numbers of windows by source and outcome, by name.
    counts: Mapping[str, int]

    def windows_in(self, split: Split, pieces: Collection[str] = ()) -> int:
        """Return the number of rows in a split's own window files, which those of ``pieces`` are not in."""
        if split is Split.TRAIN:
            own = sum(len(rows) for name, rows in self.train.items() if name not in pieces)
            return own + sum(int(np.count_nonzero(kept)) for name, kept in self.corpus.items() if name not in pieces)
        return sum(_total(by_contig) for (_, s), by_contig in self.evaluation.items() if s is split)


def plan_package(sources: PackageSources, holdouts: HoldoutIndex) -> PackagePlan:
    """Assign every window to its splits."""
    counts: Counter[str] = Counter()
    regions = {contig: find_regions(contig, sources.intervals, sources.alleles) for contig in sources.windows}
    splits = {
        contig: split_windows(contig, table, margin_bp=sources.margin_bp, regions=regions[contig], holdouts=holdouts)
        for contig, table in sources.windows.items()
    }
    held = held_out_hashes(sources, splits)
    bench = plan_bench(sources, regions, splits, holdouts)
    frozen, controls = _choose_evaluation(sources, splits, counts)
    evaluation = {key: _with_bench(rows, bench.windows.get(key, {})) for key, rows in frozen.items()}
    for (holdout, split), rows in evaluation.items():
        if split is Split.VALIDATION:
            counts[f"{split}.{holdout}.scoring_windows"] = _total(rows) - _total(frozen[holdout, split])
    counts.update(bench.counts)
    bases = EvaluationBases(sources.windows, evaluation, sources.intervals, sources.margin_bp)
    removing = _Removing(held, bases, counts)
    found = {contig: _training_rows(sources, contig, split, removing) for contig, split in splits.items()}
    train, beside = ({contig: rows[at] for contig, rows in found.items()} for at in range(2))
    corpus = {piece: _corpus_rows(sources, piece, holdouts, removing) for piece in sources.corpus}
    counts.update(_count_removed(sources, regions))
    counts.update(bases.counts)
    return PackagePlan(
        train, beside, evaluation, bench, frozen, controls, corpus, regions, dict(sorted(counts.items()))
    )


def held_out_hashes(sources: PackageSources, splits: Mapping[str, WindowSplit]) -> frozenset[bytes]:
    """Return the SHA-256 digests, 32 bytes each, of every held-out window and of its reverse complement."""
    found: set[bytes] = set()
    for contig, split in splits.items():
        table = sources.windows[contig].filter(pa.array(split.held_out))
        if table.num_rows:
            found.update(table["window_hash"].to_pylist())
            bases = sources.reference(contig)
            spans = zip(table["start"].to_pylist(), table["end"].to_pylist(), strict=True)
            found.update(hashlib.sha256(reverse_complement(bases[start:end])).digest() for start, end in spans)
    return frozenset(found)


class _Removing(NamedTuple):
    """What removes training windows: hashes of held-out ones, and evaluation; and the counts of windows by outcome."""

    held: frozenset[bytes]
    bases: EvaluationBases
    counts: Counter[str]


def _training_rows(
    sources: PackageSources, contig: str, split: WindowSplit, removing: _Removing
) -> tuple[Int64s, Int64s]:
    windows = sources.windows[contig]
    copies = _is_in(windows["window_hash"], removing.held)
    placed = np.arange(windows.num_rows), Placed.of_reference(contig, windows)
    beside = _buffered(sources, removing.bases, [placed], len(copies))
    kept = np.flatnonzero(_count_outcomes(REFERENCE_ORIGIN, split.held_out, copies, beside, removing.counts))
    removing.bases.measure(Placed.of_reference(contig, windows, kept))
    return kept.astype(np.int64), np.flatnonzero(beside & ~copies & ~split.held_out).astype(np.int64)


def _corpus_rows(sources: PackageSources, piece: str, holdouts: HoldoutIndex, removing: _Removing) -> Bools:
    kept, (source, _) = [np.zeros(0, bool)], parse_piece(piece)
    for _, batch in sources.corpus_batches(piece, _CORPUS_COLUMNS):
        copies = _is_in(batch["window_hash"], removing.held)
        beside = _buffered(sources, removing.bases, placed_corpus(batch), len(copies))
        kept.append(_count_outcomes(source, holdouts.corpus_is_held_out(batch), copies, beside, removing.counts))
        for _, placed in placed_corpus(batch.filter(pa.array(kept[-1]))):
            removing.bases.measure(placed)
    return np.concatenate(kept)


def _buffered(
    sources: PackageSources, bases: EvaluationBases, placed: Iterable[tuple[Int64s, Placed]], n: int
) -> Bools:
    """Tell which of ``n`` windows the buffer removes; ``placed`` has those with a place, with their row numbers."""
    beside = np.zeros(n, dtype=bool)
    if sources.policy.buffer == Buffer.WINDOWS:
        for rows, windows in placed:
            beside[rows] = bases.beside(windows)
    return beside


def _count_outcomes(origin: str, held_out: Bools, copies: Bools, beside: Bools, counts: Counter[str]) -> Bools:
    """Count every window of an origin once, by the first reason that removes it; tell which are left."""
    left: Bools = np.ones(len(held_out), dtype=bool)
    counts[f"windows.{origin}.in"] += len(left)
    for outcome, removed in (("held_out", held_out), ("equal_to_held_out", copies), ("beside_evaluation", beside)):
        counts[f"windows.{origin}.{outcome}"] += int(np.count_nonzero(left & removed))
        left &= ~removed
    counts[f"windows.{origin}.train"] += int(np.count_nonzero(left))
    return left


def _with_bench(frozen: Mapping[str, Int64s], bench: Mapping[str, Int64s]) -> dict[str, Int64s]:
    """Return the windows of a stream and those that show bench alleles: row numbers by contig, ascending."""
    none = np.zeros(0, np.int64)
    both = {contig: np.union1d(frozen.get(contig, none), bench.get(contig, none)) for contig in {*frozen, *bench}}
    return {contig: rows.astype(np.int64) for contig, rows in both.items() if len(rows)}


def _total(rows: Mapping[str, Int64s]) -> int:
    return sum(map(len, rows.values()))


def _choose_evaluation(
    sources: PackageSources, splits: Mapping[str, WindowSplit], counts: Counter[str]
) -> tuple[dict[tuple[str, Split], Mapping[str, Int64s]], dict[tuple[str, Split], Mapping[str, Int64s]]]:
    """Choose the windows of the streams, in validation at most so many per holdout, and those with control windows."""
    limit, seed = sources.policy.validation_windows, sources.policy.seed
    starts = {contig: table["start"].to_numpy() for contig, table in sources.windows.items()}
    flagged = {contig: _is_flagged(table) for contig, table in sources.windows.items()}
    evaluation: dict[tuple[str, Split], Mapping[str, Int64s]] = {}
    controls: dict[tuple[str, Split], Mapping[str, Int64s]] = {}
    for holdout in map(str, Holdout):
        for split in EVALUATION:
            key = (holdout, split)
            candidates = {c: s.evaluation[key] for c, s in splits.items() if len(s.evaluation.get(key, ()))}
            if holdout == Holdout.HAPLOTYPES:
                met, candidates = _total(candidates), windows_that_emit(sources, candidates, split)
                counts[f"{split}.{holdout}.windows_without_haplotype"] = met - _total(candidates)
            chosen = choose_windows(candidates, starts, holdout=holdout, limit=limit, seed=seed)
            evaluation[key] = candidates if split is Split.TEST else chosen
            controls[key] = chosen
            n = _total(evaluation[key])
            counts[f"{split}.{holdout}.available"] = _total(candidates)
            counts[f"{split}.{holdout}.windows"] = n
            counts[f"{split}.{holdout}.flagged_windows"] = sum(
                int(np.count_nonzero(flagged[contig][rows])) for contig, rows in evaluation[key].items()
            )
            if split is Split.VALIDATION:
                counts[f"{split}.{holdout}.shortfall"] = limit - n
    return evaluation, controls


def _is_flagged(windows: pa.Table) -> Bools:
    """Tell which windows overlap a segmental duplication or excluded region; their results are reported separately."""
    shares = [pc.fill_null(windows[name], 0).to_numpy() for name in ("segmental_duplication", "excluded_region")]
    found: Bools = np.logical_or.reduce([share > 0 for share in shares])
    return found


def _count_removed(sources: PackageSources, regions: Mapping[str, RoleRegions]) -> Counter[str]:
    """Count the reference windows that the intervals of each holdout exclude from training, each holdout alone."""
    removed: Counter[str] = Counter()
    for contig, table in sources.windows.items():
        start, end = table["start"].to_numpy(), table["end"].to_numpy() + sources.margin_bp
        by_holdout: dict[str, Bools] = {}
        for (holdout, _), region in regions[contig].intervals.items():
            met = meets(region, start, end)
            by_holdout[holdout] = by_holdout.get(holdout, np.zeros(len(start), bool)) | met
        removed.update({f"removed.{name}.windows": int(np.count_nonzero(met)) for name, met in by_holdout.items()})
    return removed


def _is_in(hashes: pa.ChunkedArray, held: frozenset[bytes]) -> Bools:
    return np.array([digest in held for digest in hashes.to_pylist()], dtype=bool)
