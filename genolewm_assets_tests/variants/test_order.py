from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from genolewm_assets.genome import Contig
from genolewm_assets.variants.kernels import MOST_TIES, AlleleColumns, order_ties
from genolewm_assets.variants.normal_form import AlleleNormaliser, Rejection, alt_problem
from genolewm_assets.variants.order import KEY, LowMarks, columns_of, find_repeats, order_alleles, without_rows
from genolewm_assets.variants.schema import RejectReason
from genolewm_assets.variants.spans import allele_keys, allele_spans, as_bools
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.holdout_world import gnomad

Key = tuple[int, str, str]
KEYS = st.tuples(st.integers(1, 12), st.sampled_from(["A", "AC", "C", "ACA"]), st.sampled_from(["A", "T", "TA", "TT"]))


def batch_of(keys: Sequence[Key], first: int = 0) -> pa.RecordBatch:
    columns = list(zip(*keys, strict=True)) if keys else [(), (), ()]
    arrays = [pa.array(range(first, first + len(keys)), pa.int64())]
    arrays += [pa.array(values, kind) for values, (_, kind) in zip(columns, KEY, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([("n", pa.int64()), *KEY]))


def numbered(parts: Sequence[Sequence[Key]]) -> list[pa.RecordBatch]:
    starts = np.cumsum([0, *map(len, parts)]).tolist()
    return [batch_of(part, start) for part, start in zip(parts, starts, strict=False)]


def ordered(batches: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    marks = LowMarks()
    for batch in batches:
        marks.add(batch)
    return list(order_alleles(batches, marks))


def keys_of(batches: Sequence[pa.RecordBatch]) -> list[Key]:
    return [(row["pos"], row["ref"], row["alt"]) for batch in batches for row in batch.to_pylist()]


@given(st.lists(st.lists(KEYS, max_size=12), max_size=8))
def test_order_is_that_of_a_plain_sort(parts: list[list[Key]]) -> None:
    found = ordered(numbered(parts))
    assert keys_of(found) == sorted(key for part in parts for key in part)
    assert sorted(row["n"] for batch in found for row in batch.to_pylist()) == list(range(sum(map(len, parts))))
    for before, after in pairwise(found):
        assert before["pos"][-1].as_py() < after["pos"][0].as_py()


@each_row("ties", [2, MOST_TIES, MOST_TIES + 1, 500])
def test_many_alleles_at_one_position(ties: int) -> None:
    alleles = ["".join("ACGT"[at // 4**place % 4] for place in range(5)) for at in range(ties)]
    keys = [(7, "A", alt) for alt in reversed(alleles)] + [(3, "C", "T")]
    assert keys_of(ordered([batch_of(keys)])) == sorted(keys)


def test_sorted_rows_are_not_moved_and_leave_at_once() -> None:
    parts = [[(pos, "A", "C") for pos in range(start, start + 10)] for start in range(1, 100, 10)]
    batches = numbered(parts)
    marks = LowMarks()
    for batch in batches:
        marks.add(batch)
    taken = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal taken
        for batch in batches:
            taken += 1
            yield batch

    for at, found in enumerate(order_alleles(counted(), marks)):
        assert taken == at + 1
        addresses = [[buffer.address for buffer in each["ref"].buffers() if buffer] for each in (found, batches[at])]
        assert addresses[0] == addresses[1]


def test_repeats_are_grouped() -> None:
    keys = [(1, "A", "C"), (2, "A", "C"), (2, "A", "C"), (2, "A", "G"), (3, "A", "C"), (3, "A", "C"), (3, "A", "C")]
    rows, groups = find_repeats(batch_of(keys))
    assert rows.tolist() == [1, 2, 4, 5, 6]
    assert [len(set(groups[start:end].tolist())) for start, end in ((0, 2), (2, 5), (0, 5))] == [1, 1, 2]
    for short in (keys[:1], [], keys[3:5]):
        rows, groups = find_repeats(batch_of(short))
        assert rows.size == groups.size == 0


@given(
    drawn=st.sampled_from([1, 5, 200, 1_000]).flatmap(
        lambda rows: st.tuples(st.just(rows), st.sets(st.integers(0, rows - 1), max_size=30))
    )
)
@example(drawn=(300, {0, 299}))
@example(drawn=(300, {150, 151, 152}))
@example(drawn=(3, {0, 1, 2}))
def test_rows_left_out(drawn: tuple[int, set[int]]) -> None:
    rows, out = drawn
    batch = batch_of([(at + 1, "A", "AC" * (at % 5)) for at in range(rows)])
    found = without_rows(batch, np.array(sorted(out), np.int64))
    assert found.to_pylist() == [row for at, row in enumerate(batch.to_pylist()) if at not in out]
    assert found.schema.equals(batch.schema)


def columns(*alleles: tuple[int, str, str]) -> AlleleColumns:
    pos, ref, alt = zip(*alleles, strict=True)
    arrays = [pa.array(pos, pa.int64()), pa.array(ref, pa.string()), pa.array(alt, pa.string())]
    return columns_of(pa.RecordBatch.from_arrays(arrays, names=["pos", "ref", "alt"]))


@each_row("ties", [1, 2, MOST_TIES, MOST_TIES + 1])
def test_ties_are_ordered_up_to_a_number(ties: int) -> None:
    alleles = [(2, "A", "C"), *((5, "A", "C" * size) for size in range(ties, 0, -1)), (6, "A", "C")]
    order = np.arange(len(alleles))
    assert order_ties(order, columns(*alleles)) is (ties <= MOST_TIES)
    if ties <= MOST_TIES:
        assert order.tolist() == [0, *range(ties, 0, -1), ties + 1]


SEQUENCE = b"NNGATTTTTCACACACGTN"
TOY = Contig("chr1", len(SEQUENCE), aliases=("1",))


@each_row(
    ("alt", "reason"),
    [
        *(("A", None), ("ACGT", None), (".", RejectReason.MISSING_ALT), ("", RejectReason.MISSING_ALT)),
        *(("*", RejectReason.SPANNING_DELETION), ("<DEL>", RejectReason.SYMBOLIC), ("<*>", RejectReason.SYMBOLIC)),
        *(("G]17:198982]", RejectReason.SYMBOLIC), ("[13:123457[C", RejectReason.SYMBOLIC)),
        *(("G.", RejectReason.SYMBOLIC), (".A", RejectReason.SYMBOLIC), ("R", RejectReason.IUPAC)),
        *(("ANNT", RejectReason.IUPAC), ("U", RejectReason.NOT_A_SEQUENCE), ("A-", RejectReason.NOT_A_SEQUENCE)),
        ("17", RejectReason.NOT_A_SEQUENCE),
    ],
)
def test_alt_problem(alt: str, reason: RejectReason | None) -> None:
    assert alt_problem(alt) is reason


def test_normal_form_anchored_on_n_is_rejected() -> None:
    sequence = b"NNTTTTG"
    outcome = AlleleNormaliser(lambda _: sequence).normalise(Contig("chr1", 7), 6, "T", "TT")
    assert isinstance(outcome, Rejection)
    assert outcome.reason is RejectReason.REF_NOT_ACGT
    assert outcome.detail == "the normal form is 2:N:NT"


def test_a_contig_is_read_once_per_run_of_alleles() -> None:
    asked: list[str] = []

    def reference(contig: Contig) -> bytes:
        asked.append(contig.name)
        return SEQUENCE

    normaliser = AlleleNormaliser(reference)
    for _ in range(3):
        normaliser.normalise(TOY, 3, "G", "C")
    assert asked == ["chr1"]


def test_spans_and_keys_of_alleles() -> None:
    table = gnomad([(1, "ACG", "A"), (2, "C", "CTT")])
    start, end = allele_spans(table)
    assert list(zip(start.tolist(), end.tolist(), strict=True)) == [(0, 3), (1, 2)]
    assert allele_keys(table).to_pylist() == ["chr17\t1\tACG\tA", "chr17\t2\tC\tCTT"]
    assert allele_keys(pa.concat_tables([table, table])).to_pylist() == allele_keys(table).to_pylist() * 2


def test_null_is_false() -> None:
    assert as_bools(pa.array([True, None, False])).tolist() == [True, False, False]
