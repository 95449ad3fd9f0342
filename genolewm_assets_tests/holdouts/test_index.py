"""Windows that are similar to held-out sequence: which are asked for, and what is listed of them."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from genolewm_assets.errors import AlleleError, CorruptResourceError, UnknownContigError
from genolewm_assets.genome import Holdout, IntervalArray
from genolewm_assets.holdouts import (
    HOLDOUT_COMPARED,
    HOLDOUT_CORPUS,
    HOLDOUT_SIMILAR,
    Compared,
    Held,
    HoldoutIndex,
    HoldoutPolicy,
    Kept,
    PieceQueries,
    SequenceInputs,
    SimilarReason,
    build_holdouts,
    check_holdouts,
)
from genolewm_assets.holdouts.schema import HOLDOUT_ALLELES, HOLDOUT_INTERVALS
from genolewm_assets.holdouts.similar import (
    REFERENCE,
    WindowKey,
    corpus_queries,
    list_similar,
    reference_queries,
    similar_corpus_rows,
)
from genolewm_assets.variants import ALLELE_KEY
from genolewm_assets.windows.bases import TEXTS, packed_sizes
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.holdout_world import CONTIGS, corpus, corpus_row, gnomad, simulated_inputs
from genolewm_assets_tests.worlds.sources.queries import Query, as_queries, pack

Span = tuple[str, int, int]
Key = tuple[str, int, str, str]


def build(spans: list[Span] = [], alleles: list[Key] = [], corpus_rows: list[int] = []) -> HoldoutIndex:  # noqa: B006
    side = {"holdout": "holdout-clinvar", "role": "test", "unit": "u", "name": "u", "reason": "gene_component"}
    intervals = [{**side, "contig": contig, "start": start, "end": end} for contig, start, end in spans]
    listed = [
        {**side, "source": "clinvar", "gene_ids": [], **dict(zip(("chrom", "pos", "ref", "alt"), key, strict=True))}
        for key in alleles
    ]
    rows = [{**corpus_row(number), "holdout": "holdout-chr", "reason": "placed"} for number in corpus_rows]
    return HoldoutIndex(
        pa.Table.from_pylist(intervals, schema=HOLDOUT_INTERVALS.arrow),
        pa.Table.from_pylist(listed, schema=HOLDOUT_ALLELES.arrow),
        pa.Table.from_pylist(rows, schema=HOLDOUT_CORPUS.arrow),
        contigs=CONTIGS,
    )


def asked(*spans: tuple[int, int]) -> IntervalArray:
    return IntervalArray(*np.array(spans, dtype=np.int64).T)


def test_of_the_alleles_the_key_is_read() -> None:
    tables = HOLDOUT_INTERVALS.empty(), HOLDOUT_ALLELES.empty(), HOLDOUT_CORPUS.empty()
    index = HoldoutIndex(tables[0], tables[1].select(ALLELE_KEY), tables[2])
    assert index.window_is_held_out("chr21", asked((0, 9))).tolist() == [False]
    with pytest.raises(CorruptResourceError, match=r"schema 'holdout_alleles': expected .*<pos: int64"):
        HoldoutIndex(tables[0], tables[1].drop(["pos"]), tables[2])


@each_row("name", ["chr21", "21", "CHR21", "NC_000021.9"])
def test_contig_by_any_name(name: str) -> None:
    index = build([("chr21", 100, 200)])
    assert index.window_is_held_out(name, asked((0, 100), (0, 101), (199, 300), (200, 300))).tolist() == [
        False,
        True,
        True,
        False,
    ]
    table = gnomad([(100, "A", "C"), (101, "A", "C"), (200, "A", "C"), (201, "A", "C")], name)
    assert index.allele_is_held_out(table).tolist() == [False, True, True, False]


def test_unknown_contig_is_no_answer() -> None:
    index = build([("chr21", 100, 200)])
    with pytest.raises(UnknownContigError):
        index.window_is_held_out("chr99", asked((0, 1)))
    with pytest.raises(UnknownContigError):
        index.allele_is_held_out(gnomad([(1, "A", "C")], "chr99"))


def test_a_deletion_that_reaches_into_an_interval_is_held_out() -> None:
    index = build([("chr17", 100, 200)])
    table = gnomad([(98, "ACG", "A"), (99, "ACG", "A"), (200, "ACG", "A")])
    assert index.allele_is_held_out(table).tolist() == [False, True, True]


def test_listed_alleles_are_held_out_by_their_whole_key() -> None:
    index = build(alleles=[("chr17", 50, "A", "C"), ("chr17", 60, "A", "AT")])
    table = gnomad([(50, "A", "C"), (50, "A", "G"), (51, "A", "C"), (60, "A", "AT"), (60, "AT", "A")])
    assert index.allele_is_held_out(table).tolist() == [True, False, False, True, False]
    assert not index.allele_is_held_out(gnomad([(50, "A", "C")], "chr20")).any()
    assert index.allele_is_held_out(gnomad([])).tolist() == []


@each_row(("pos", "ref", "alt"), [(49, "GA", "GC"), (50, "AT", "CT"), (60, "TA", "A"), (60, "AAT", "AT")])
def test_another_spelling_is_refused(pos: int, ref: str, alt: str) -> None:
    with pytest.raises(AlleleError, match="normal form"):
        build(alleles=[("chr17", 50, "A", "C")]).allele_is_held_out(gnomad([(10, "A", "C"), (pos, ref, alt)]))


def test_corpus_rows_by_source_record_and_number() -> None:
    index = build(corpus_rows=[1, 3])
    rows = [corpus_row(1), corpus_row(1, window_index=1), corpus_row(3, source="mrna_evo2"), corpus_row(3)]
    assert index.corpus_is_held_out(corpus(rows)).tolist() == [True, False, False, True]


RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["eukaryote_generator", "mrna_evo2", "prokaryote_evo2"]),
        st.integers(0, 3).map(str),
        st.integers(0, 2),
    ),
    max_size=20,
)


@given(RECORDS, RECORDS)
def test_corpus_rows_equal_a_referee_of_sets_in_any_order(
    held: list[tuple[str, str, int]], windows: list[tuple[str, str, int]]
) -> None:
    listed, asked_for = (
        [dict(zip(HOLDOUT_CORPUS.key, each, strict=False)) for each in rows] for rows in (held, windows)
    )
    table = [{**row, "holdout": "holdout-chr", "reason": "placed"} for row in listed]
    rows = pa.Table.from_pylist(table, schema=HOLDOUT_CORPUS.arrow)
    index = HoldoutIndex(HOLDOUT_INTERVALS.empty(), HOLDOUT_ALLELES.empty(), rows, contigs=CONTIGS)
    found = index.corpus_is_held_out(corpus([corpus_row(0, **row) for row in asked_for]))
    assert found.tolist() == [row in held for row in windows]


def test_survives_pickling() -> None:
    index = pickle.loads(pickle.dumps(build([("chr21", 100, 200)], [("chr17", 50, "A", "C")], [1])))
    assert index.window_is_held_out("21", asked((150, 160))).all()
    assert index.allele_is_held_out(gnomad([(50, "A", "C")])).all()
    assert index.corpus_is_held_out(corpus([corpus_row(1)])).all()


SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 15)).map(lambda s: (s[0], sum(s))), max_size=8)


@given(SPANS, SPANS)
def test_windows_equal_a_referee_of_sets(held: list[tuple[int, int]], windows: list[tuple[int, int]]) -> None:
    bases = {base for start, end in held for base in range(start, end)}
    ordered = sorted(windows)
    expected = [not bases.isdisjoint(range(start, end)) for start, end in ordered]
    index = build([("chr17", start, end) for start, end in held])
    footprints = IntervalArray.from_unsorted([s for s, _ in windows], [e for _, e in windows])
    assert index.window_is_held_out("chr17", footprints).tolist() == expected


POLICY = HoldoutPolicy(haplotype_fraction=0.05)
HELD = {
    Holdout.CHR: {"chr20": IntervalArray(np.array([0]), np.array([64_444_167]))},
    Holdout.CLINVAR: {"chr17": IntervalArray(np.array([1_000]), np.array([2_000]))},
}
WINDOW = WindowKey(REFERENCE, "chr17", 5_000)
RECORD = WindowKey("mrna_evo2", record_id="ENST1", window_index=2)


Place = tuple[str, int, int]


def similar(*found: tuple[WindowKey, SimilarReason, int, list[Place]]) -> pa.Table:
    """Return the rows of windows that share so many 21-mers with one interval, and align to places of it."""
    one = {"piece": "p", "window_bp": 1_000, "unit_start": 0, "unit_end": 10_000, "strand": "+", "identity": 0.95}
    rows = [
        {**key._asdict(), **one, "share": 0.6, "shared_kmers": shared, "reason": str(reason), "number": n, "runs": []}
        | {"held_contig": contig, "held_start": start, "held_end": end, "aligned_bp": end - start}
        for key, reason, shared, places in found
        for n, (contig, start, end) in enumerate(places)
    ]
    return pa.Table.from_pylist(rows, schema=HOLDOUT_COMPARED.arrow.append(pa.field("reason", pa.string())))


def test_each_holdout_gets_the_best_place_in_it() -> None:
    places = [("chr20", 10, 2_000), ("chr17", 1_900, 2_500), ("chr17", 1_000, 1_009)]
    table, counts = list_similar(similar((RECORD, SimilarReason.ALIGNED, 50, places)), HELD)
    assert [(row["holdout"], row["held_contig"], row["held_start"]) for row in table.to_pylist()] == [
        ("holdout-chr", "chr20", 10),
        ("holdout-clinvar", "chr17", 1_900),
    ]
    assert counts["similar.mrna_evo2.aligned"] == 1
    assert sum(counts.values()) == 1
    HOLDOUT_SIMILAR.check(table.schema, where="similar")


def test_a_window_found_twice_counts_once_by_its_strongest_reason() -> None:
    weak = (WINDOW, SimilarReason.SHARED_KMERS, 400, [("chr20", 10, 31)])
    strong = (WINDOW, SimilarReason.CHAINED, 20, [("chr20", 5_000, 9_000)])
    for order in ([weak, strong], [strong, weak]):
        table, counts = list_similar(similar(*order), HELD)
        assert table["reason"].to_pylist() == ["chained"]
        assert table["held_start"].to_pylist() == [5_000]
        assert (counts["similar.reference.chained"], sum(counts.values())) == (1, 1)


def test_similar_windows_are_excluded() -> None:
    table, _ = list_similar(
        similar(
            (RECORD, SimilarReason.SHARED_KMERS, 50, [("chr20", 10, 31)]),
            (WINDOW, SimilarReason.ALIGNED, 50, [("chr17", 1_100, 2_000)]),
        ),
        HELD,
    )
    assert similar_corpus_rows(table).to_pylist() == [
        {"source": "mrna_evo2", "record_id": "ENST1", "window_index": 2, "holdout": "holdout-chr", "reason": "similar"}
    ]
    empty = build_holdouts(simulated_inputs(), POLICY)
    index = HoldoutIndex(empty.intervals, empty.alleles, empty.corpus, table)
    assert index.window_is_similar("17", np.array([5_000, 5_001])).tolist() == [True, False]
    assert not index.window_is_similar("chr20", np.array([5_000])).any()


def test_what_trainers_can_see_of_a_window_is_asked_for() -> None:
    starts, ends = [100, 500, 1_990, 2_400], [401, 901, 2_390, 2_800]
    windows = {"chr17": pa.table({"start": starts, "end": ends})}
    bases = "".join(np.random.default_rng(1).choice([*"ACGT"], 3_000))
    texts = [[bases[a - 100 : a], bases[a:b], bases[b : b + 100]] for a, b in zip(starts, ends, strict=True)]
    packed = pack(pa.table([pa.array(each) for each in zip(*texts, strict=True)], TEXTS))
    asked = as_queries(reference_queries(windows, lambda _: packed, HELD[Holdout.CLINVAR], margin_bp=100))
    # The second window meets the interval with its flank, the third with its bases.
    assert [(query.key, query.bases.decode()) for query in asked] == [
        (WindowKey(REFERENCE, "chr17", 100), bases[100:501]),
        (WindowKey(REFERENCE, "chr17", 2_400), bases[2_400:2_900]),
    ]
    columns = {"left_flank": ["A", "C"], "sequence": ["ACG", "GGTTC"], "right_flank": ["T", "G"], "window_bp": [3, 5]}
    keys = {"source": ["mrna_evo2", "prokaryote_evo2"], "record_id": ["a", "b"], "window_index": [0, 1]}
    table = pa.table({**keys, **columns})
    both = [
        Query(WindowKey("mrna_evo2", record_id="a"), b"ACGT", transcribed=True),
        Query(WindowKey("prokaryote_evo2", record_id="b", window_index=1), b"GGTTCG"),
    ]

    def of_corpus(*placed: bool, cut: int = 0) -> list[Query]:
        bases = pack(table)[cut:]
        return [
            *as_queries(corpus_queries([("piece", table)], lambda _: bases, lambda _: np.array(placed), margin_bp=1))
        ]

    assert of_corpus(False, False) == both
    assert of_corpus(True, False) == both[1:]
    with pytest.raises(CorruptResourceError, match="does not have the bases of its windows"):
        of_corpus(False, False, cut=1)


def test_holdouts_list_what_the_search_finds_and_their_checks_compare_it() -> None:
    inputs, policy = simulated_inputs(), POLICY
    before = build_holdouts(inputs, policy)
    place = before.intervals.to_pylist()[0]
    key = WindowKey("mrna_evo2", record_id="somewhere else", window_index=7)

    rows = similar((key, SimilarReason.ALIGNED, 50, [(place["contig"], place["start"], place["start"] + 10)]))

    def find(held: Held, queries: Iterable[PieceQueries], kept: Kept | None) -> Compared:
        assert {query.key.origin for query in as_queries(queries)} == {REFERENCE}
        assert place["contig"] in held
        assert kept is None
        return Compared(rows.select(HOLDOUT_COMPARED.columns), rows, Counter(mrna_evo2=3))

    def bases(contig: str) -> NDArray[np.uint8]:
        sizes = inputs.windows[contig]["end"].to_numpy() - inputs.windows[contig]["start"].to_numpy()
        return np.zeros(packed_sizes(sizes + 2 * inputs.profile.margin_bp).sum(), np.uint8)

    given = replace(inputs, sequences=SequenceInputs(find, bases, lambda: []))
    held = build_holdouts(given, policy)
    rows = [row for row in held.corpus.to_pylist() if row["record_id"] == "somewhere else"]
    assert {row["reason"] for row in rows} == {"similar"}
    assert place["holdout"] in {row["holdout"] for row in rows}
    assert [held.counts[f"similar.mrna_evo2.{name}"] for name in ("aligned", "repeats")] == [1, 3]

    def outcome(tables: object) -> bool:
        checks = check_holdouts(tables, given, policy)  # type: ignore[arg-type]
        return next(check.passed for check in checks if check.name == "similar_windows_excluded")

    assert outcome(held)
    assert not outcome(replace(held, corpus=before.corpus))
    column = held.similar.column_names.index("held_contig")
    elsewhere = held.similar.set_column(column, held.similar.schema.field(column), [["chr5"] * held.similar.num_rows])
    assert not outcome(replace(held, similar=elsewhere))
