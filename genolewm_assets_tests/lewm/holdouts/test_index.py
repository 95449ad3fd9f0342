from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import AlleleError, CorruptResourceError, UnknownContigError
from genolewm_assets.genome import IntervalArray
from genolewm_assets.lewm.holdouts.index import HoldoutIndex
from genolewm_assets.lewm.holdouts.schema import HOLDOUT_ALLELES, HOLDOUT_CORPUS, HOLDOUT_INTERVALS
from genolewm_assets_tests.worlds.lewm.holdout_world import CONTIGS, corpus, corpus_row, gnomad

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


@pytest.mark.parametrize("name", ["chr21", "21", "CHR21", "NC_000021.9"])
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


def test_contig_without_anything_held_out() -> None:
    assert not build([("chr21", 100, 200)]).window_is_held_out("chr5", asked((0, 10**8))).any()


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


@pytest.mark.parametrize(
    ("pos", "ref", "alt"), [(49, "GA", "GC"), (50, "AT", "CT"), (60, "TA", "A"), (60, "AAT", "AT")]
)
def test_another_spelling_is_refused(pos: int, ref: str, alt: str) -> None:
    with pytest.raises(AlleleError, match="normal form"):
        build(alleles=[("chr17", 50, "A", "C")]).allele_is_held_out(gnomad([(10, "A", "C"), (pos, ref, alt)]))


def test_first_base_of_a_contig_has_no_anchor_before_it() -> None:
    assert not build().allele_is_held_out(gnomad([(1, "AC", "C")])).any()


def test_corpus_rows_by_source_record_and_number() -> None:
    index = build(corpus_rows=[1, 3])
    rows = [corpus_row(1), corpus_row(1, window_index=1), corpus_row(3, source="mrna_evo2"), corpus_row(3)]
    assert index.corpus_is_held_out(corpus(rows)).tolist() == [True, False, False, True]


def test_tables_of_another_schema_are_refused() -> None:
    with pytest.raises(CorruptResourceError, match="holdouts/alleles"):
        HoldoutIndex(HOLDOUT_INTERVALS.empty(), HOLDOUT_CORPUS.empty(), HOLDOUT_CORPUS.empty())


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
