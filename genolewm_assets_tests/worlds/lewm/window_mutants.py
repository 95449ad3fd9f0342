"""Mistakes of the filters of windows, with what an audit finds of them in the package of ``filtered_world``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from genolewm_assets.audit import LeakKind
from genolewm_assets.genome import intervals
from genolewm_assets.holdouts.corpus import CorpusRule
from genolewm_assets.holdouts.held_intervals import hold_genes
from genolewm_assets.holdouts.index import HoldoutIndex
from genolewm_assets.holdouts.similar import PieceQueries, WindowKey, corpus_queries, list_similar
from genolewm_assets.package_build import plan, split
from genolewm_assets.sources.similarity import held_part, repeats, search, verdicts
from genolewm_assets.windows.corpus.placement import CorpusPlacer, Verdict
from genolewm_assets.windows.corpus.records import CorpusRecord, CorpusSource, states_non_human
from genolewm_assets_tests.worlds.lewm.filtered_world import CONTIGS, GENE_A, PROFILE
from genolewm_assets_tests.worlds.lewm.mutants import BUILD, HOLDOUTS, Mutant, Mutate, all_of, exchange, nothing

_MARGIN_BP = PROFILE.margin_bp
_CORPUS, _SIMILARITY, _VERDICTS = "genolewm_assets.windows.corpus", search.__name__, verdicts.__name__
_NEVER = 10**6

_SIMILAR_PAIRS, _CORPUS_QUERIES, _LIST_SIMILAR = verdicts.list_similar_pairs, corpus_queries, list_similar
_HOLD_GENES, _TRAINING_ROWS = hold_genes, plan._training_rows


def _no_rows(_: object, table: pa.Table) -> np.ndarray:
    return np.zeros(table.num_rows, dtype=bool)


def _shifted_queries(at_start: int, at_end: int) -> Mutate:
    found = intervals.first_met
    return exchange(
        f"{intervals.__name__}.first_met", lambda held, start, end: found(held, start + at_start, end + at_end)
    )


def _without_margin(*given: Any, margin_bp: int, **more: Any) -> Any:
    assert margin_bp
    return split.split_windows(*given, margin_bp=0, **more)


def _genes_without_margin(policy: Any, components: Any, lengths: Any, window_bp: int, *before: Any, **more: Any) -> Any:
    assert window_bp
    return _HOLD_GENES(policy, components, lengths, 0, *before, **more)


def _places() -> Iterator[Mutant]:
    first, last = f"reference chr17:{GENE_A[1] - 1}", f"reference chr17:{GENE_A[0] + 1 - 1_296}"
    kind, records = LeakKind.HELD_INTERVAL, "eukaryote_generator"
    yield Mutant("interval one base short at its end", _shifted_queries(1, 0), kind, first)
    yield Mutant("interval one base short at its start", _shifted_queries(0, -1), kind, last)
    yield Mutant("right flank forgotten", exchange(f"{BUILD}.plan.split_windows", _without_margin), kind, last)
    genes = exchange(f"{HOLDOUTS}.build.hold_genes", _genes_without_margin)
    yield Mutant("genes without the bases around them", genes, kind, "reference chr17:", told=True)
    forgotten = exchange(f"{HOLDOUTS}.build.CorpusRule", lambda held, doubtful, _: CorpusRule(held, doubtful, 0))
    yield Mutant("flanks of records forgotten", forgotten, kind, f"{records} flank+:0")
    one_side = exchange(
        f"{HOLDOUTS}.corpus.meets", lambda held, start, end: intervals.meets(held, start + _MARGIN_BP, end)
    )
    yield Mutant("flank on the wrong side of records on -", one_side, kind, f"{records} flank-:0")
    fail_open = exchange(f"{HOLDOUTS}.corpus._may_come_from", lambda table, *_: np.zeros(table.num_rows, dtype=bool))
    yield Mutant("record with a contig alone is kept", fail_open, kind, f"{records} contig_only:0")
    compare = CorpusPlacer._compare_window
    exact = exchange(
        f"{CorpusPlacer.__module__}.CorpusPlacer._compare_window", lambda *given: (compare(*given)[0], True)
    )
    yield Mutant("place with other bases counts as exact", exact, LeakKind.FALSE_PLACE, f"{records} nearly:0")
    ignored = exchange(f"{HoldoutIndex.__module__}.HoldoutIndex.corpus_is_held_out", _no_rows)
    yield Mutant("held-out records not looked up", ignored, LeakKind.HELD_RECORD, f"{records} flank+:0")
    tested = exchange(f"{BUILD}.split._in_test", lambda met, keys, n: np.zeros(n, dtype=bool))
    yield Mutant("window of test in validation", tested, LeakKind.SHARED_EVALUATION, "window ")


# What records say of themselves; the search for similar sequence would find these too.


def _records() -> Iterator[Mutant]:
    kind, records = LeakKind.HELD_SEQUENCE, "eukaryote_generator"

    def mutant(name: str, mutate: Mutate, finds: str) -> Mutant:
        return Mutant(f"{name}; similarity off", mutate, kind, finds, similarity=False)

    names = {contig.name for contig in CONTIGS}
    unresolved = exchange(
        f"{CorpusPlacer.__module__}.CorpusPlacer._canonical", lambda _, name: name if name in names else None
    )
    yield mutant("alias of a contig not resolved", unresolved, f"{records} alias:0")
    by_source = property(lambda record: record.source is not CorpusSource.PROKARYOTE_EVO2)
    exempt = exchange(f"{CorpusRecord.__module__}.CorpusRecord.maybe_human", by_source)
    yield mutant("prokaryotes' file counts as not human", exempt, "prokaryote_evo2 no_taxon:0")
    # The function without the answers that it remembers.
    undoubted = all_of(
        exchange(f"{_CORPUS}.records._DOUBT", re.compile("(?!)")),
        exchange(f"{_CORPUS}.records.states_non_human", states_non_human.__wrapped__),
    )
    yield mutant("human beside bacteria not doubted", undoubted, f"{records} transgenic:0")
    trusted = exchange(f"{CorpusPlacer.__module__}.CorpusPlacer._compare_window", lambda *_: (Verdict.CONFIRMED, False))
    yield mutant("coordinates trusted without bases", trusted, f"{records} false_place:0")


def _without_hashes(*given: Any) -> Any:
    return _TRAINING_ROWS(*given[:-1], given[-1]._replace(held=frozenset()))


def _copies() -> Iterator[Mutant]:
    none = exchange(f"{BUILD}.plan.held_out_hashes", lambda *_: frozenset())
    one_strand = exchange(f"{plan.__name__}.reverse_complement", bytes)
    of_reference = exchange(f"{BUILD}.plan._training_rows", _without_hashes)
    for name, mutate, finds in (
        ("equal records kept", none, "prokaryote_evo2 equal:0"),
        ("equal reference windows kept", of_reference, "reference chr18:16096"),
        ("hash of one strand", one_strand, "prokaryote_evo2 equal_reverse:0"),
    ):
        yield Mutant(f"{name}; similarity off", mutate, LeakKind.DUPLICATE, finds, similarity=False)


def _along_the_reference(compared: pa.Table) -> pa.Table:
    key = list(WindowKey._fields)
    found, reverse = _SIMILAR_PAIRS(compared), compared.filter(pc.equal(compared["strand"], "-")).select(key)
    rows = found.select(key).append_column("row", pa.array(np.arange(found.num_rows)))
    return found.take(rows.join(reverse, key, join_type="left anti")["row"].combine_chunks().sort())


def _choosing(choose: Callable[[PieceQueries], PieceQueries]) -> Mutate:
    """Return what changes or leaves out corpus windows before they are compared."""
    return exchange(
        f"{HOLDOUTS}.build.corpus_queries", lambda *given, **more: map(choose, _CORPUS_QUERIES(*given, **more))
    )


def _without_flanks(piece: PieceQueries) -> PieceQueries:
    return replace(piece, n_bases=piece.n_bases - _MARGIN_BP)


def _without_transcripts(piece: PieceQueries) -> PieceQueries:
    ours = ~piece.keys["transcribed"].to_numpy()
    parts = {name: getattr(piece, name)[ours] for name in ("rows", "first", "n_bases")}
    return replace(piece, keys=piece.keys.filter(pa.array(ours)), **parts)


def _maybe_human(tables: Any, bases: Any, is_placed: Any, **more: Any) -> Iterator[PieceQueries]:
    return _CORPUS_QUERIES(tables, bases, lambda table: is_placed(table) | ~table["maybe_human"].to_numpy(), **more)


def _only_aligned(found: pa.Table, held: Any) -> Any:
    return _LIST_SIMILAR(found.filter(pc.equal(found["reason"], "aligned")), held)


def _similarity() -> Iterator[Mutant]:
    kind, bacterium, transcript = LeakKind.HELD_SEQUENCE, "prokaryote_evo2", "mrna_evo2 transcript:0"
    paralogue = "reference chr18:2496"
    no_kmers = all_of(
        *(exchange(f"{_VERDICTS}.{name}", least) for name, least in (("LONGEST_RUN", _NEVER), ("LEAST_SHARE", 2.0)))
    )
    no_chains = exchange(f"{_VERDICTS}.MIN_CHAINED", 2.0)
    alone = all_of(no_kmers, no_chains)
    strict, longer = (
        exchange(f"{_VERDICTS}.{name}", least) for name, least in (("MIN_IDENTITY", 0.99), ("MIN_ALIGNED_BP", 1_400))
    )
    only_aligned = exchange(f"{HOLDOUTS}.build.list_similar", _only_aligned)
    for name, mutate, finds in (
        (
            "reverse strand not searched",
            exchange(f"{_SIMILARITY}.list_similar_pairs", _along_the_reference),
            "reference chr18:5696",
        ),
        ("shared k-mers do not count", no_kmers, f"{bacterium} chimera:0"),
        (
            "flank not searched",
            _choosing(_without_flanks),
            f"{bacterium} flank_only:0",
        ),
        (
            "transcripts not searched",
            _choosing(_without_transcripts),
            transcript,
        ),
        (
            "records of bacteria not searched",
            exchange(f"{HOLDOUTS}.build.corpus_queries", _maybe_human),
            f"{bacterium} copy_90:0",
        ),
        ("reference windows not searched", exchange(f"{HOLDOUTS}.build.reference_queries", nothing), paralogue),
        (
            "similar reference windows kept",
            exchange(
                f"{HoldoutIndex.__module__}.HoldoutIndex.window_is_similar",
                lambda _, contig, starts: np.zeros(len(starts), dtype=bool),
            ),
            paralogue,
        ),
        (
            "only the first part searched",
            exchange(f"{_SIMILARITY}.divide", lambda *given: list(held_part.divide(*given))[:1]),
            f"{bacterium} chimera:0",
        ),
        ("a second copy counts as a repeat", exchange(f"{repeats.__name__}.MOST_COPIES", 1), paralogue),
        ("only aligned windows excluded", only_aligned, f"{bacterium} chimera:0"),
    ):
        yield Mutant(name, mutate, kind, finds)
    off = "k-mers and chains off"
    yield Mutant(f"identity of 99 %; {off}", strict, kind, f"{bacterium} copy_95:0", others_off=alone)
    yield Mutant(f"aligned over 1,400 bp; {off}", longer, kind, f"{bacterium} copy_95:0", others_off=alone)
    yield Mutant("spliced hits not chained; k-mers off", no_chains, kind, transcript, others_off=no_kmers)


WINDOW_MUTANTS = (*_places(), *_records(), *_copies(), *_similarity())
