from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from genolewm_assets.variants.kernels import (
    MOST_TIES,
    NORMAL,
    NORMAL_IN_UPPER_CASE,
    UNDECIDED,
    AlleleColumns,
    classify_alleles,
    order_ties,
)
from genolewm_assets.variants.order import KEY, LowMarks, columns_of, find_repeats, order_alleles, without_rows
from genolewm_assets_tests.rows import each_row

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


@given(st.permutations([(at, at + 3) for at in range(1, 40, 2)]))
def test_overlapping_runs_are_merged(spans: list[tuple[int, int]]) -> None:
    parts = [[(pos, "A", "C") for pos in range(start, end + 1)] for start, end in spans]
    parts.append([(pos, "A", "G") for pos in range(0, 60, 5)])
    assert keys_of(ordered(numbered(parts))) == sorted(key for part in parts for key in part)


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


def test_a_low_row_at_the_end_holds_everything_back() -> None:
    parts = [[(pos, "A", "C")] for pos in (5, 6, 7, 1)]
    assert LowMarks().after(0) == np.iinfo(np.int64).max
    assert keys_of(ordered(numbered(parts))) == [(1, "A", "C"), (5, "A", "C"), (6, "A", "C"), (7, "A", "C")]


def test_low_marks_are_of_the_rows_that_follow_however_they_are_cut() -> None:
    marks = LowMarks()
    for batch in numbered([[(5, "A", "C"), (9, "A", "C")], [], [(7, "A", "C")], [(8, "A", "C")]]):
        marks.add(batch)
    end = np.iinfo(np.int64).max
    # One row of the first batch follows the first: its position is not known apart.
    assert [marks.after(rows) for rows in range(5)] == [5, 5, 7, 8, end]


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


#: The contig is the first 19 of these bases; an allele that reads on must not find what it asks for.
BASES = np.frombuffer(b"AACATTTTTCACACACGTN" + b"G" * 20, dtype=np.uint8)
LENGTH = 19


def columns(*alleles: tuple[int, str, str]) -> AlleleColumns:
    pos, ref, alt = zip(*alleles, strict=True)
    arrays = [pa.array(pos, pa.int64()), pa.array(ref, pa.string()), pa.array(alt, pa.string())]
    return columns_of(pa.RecordBatch.from_arrays(arrays, names=["pos", "ref", "alt"]))


@each_row(
    ("pos", "ref", "alt", "answer"),
    [
        (3, "C", "G", NORMAL),
        (3, "c", "G", NORMAL_IN_UPPER_CASE),
        (3, "C", "g", NORMAL_IN_UPPER_CASE),
        (3, "C", "c", UNDECIDED),
        (3, "G", "C", UNDECIDED),
        (3, "C", "CG", NORMAL),
        (3, "CA", "C", NORMAL),
        (3, "CA", "A", UNDECIDED),
        (3, "C", "AC", UNDECIDED),
        (1, "A", "CA", NORMAL),
        (1, "AA", "A", NORMAL),
        (2, "A", "CA", UNDECIDED),
        (3, "CA", "GG", NORMAL),
        (3, "CA", "GA", UNDECIDED),
        (3, "CA", "CG", UNDECIDED),
        (3, "CA", "Ga", UNDECIDED),
        (3, "CATT", "GCC", NORMAL),
        (3, "C", "G" * 8, NORMAL),
        (3, "C", "G" * 9, UNDECIDED),
        (3, "CATTTTTC", "G", NORMAL),
        (3, "CATTTTTCA", "G", UNDECIDED),
        (3, "", "G", UNDECIDED),
        (3, "C", "", UNDECIDED),
        (3, "C", "N", UNDECIDED),
        (3, "C", "*", UNDECIDED),
        (3, "C", "!", UNDECIDED),
        (19, "N", "G", UNDECIDED),
        (18, "T", "G", NORMAL),
        (20, "G", "C", UNDECIDED),
        (18, "TN", "G", UNDECIDED),
        (0, "A", "G", UNDECIDED),
        (-3, "A", "G", UNDECIDED),
        (-(2**63), "A", "G", UNDECIDED),
        (2**63 - 1, "A", "G", UNDECIDED),
    ],
)
def test_which_alleles_are_normal_as_they_stand(pos: int, ref: str, alt: str, answer: int) -> None:
    # In the middle of a column, so that a look beside the allele's own bytes would show.
    table = columns((1, "GGG", "TTT"), (pos, ref, alt), (1, "CCC", "AAA"))
    assert classify_alleles(table, BASES[:LENGTH], 0, True, LENGTH, 8)[1] == answer
    assert classify_alleles(table, BASES, 0, True, LENGTH, 8)[1] == answer
    if 1 <= pos <= LENGTH:
        assert classify_alleles(table, BASES[pos - 1 :], pos - 1, True, LENGTH, 8)[1] == answer
        assert classify_alleles(table, BASES[pos:], pos, True, LENGTH, 8)[1] == UNDECIDED


def test_a_reference_that_is_too_short_is_not_read_beyond_its_end() -> None:
    table = columns((9, "T", "A"), (11, "A", "C"), (9, "TCA", "G"))
    assert classify_alleles(table, BASES, 0, True, LENGTH, 8).tolist() == [NORMAL] * 3
    assert classify_alleles(table, BASES[:10], 0, True, LENGTH, 8).tolist() == [NORMAL, UNDECIDED, UNDECIDED]


@each_row(
    ("pos", "ref", "alt", "answer"),
    [
        (3, "G", "C", NORMAL),
        (3, "G", "TG", NORMAL),
        (3, "GT", "CT", UNDECIDED),
        (19, "G", "C", NORMAL),
        (19, "GT", "C", UNDECIDED),
        (20, "G", "C", UNDECIDED),
        (3, "N", "C", UNDECIDED),
    ],
)
def test_without_a_reference_alleles_need_only_be_trimmed(pos: int, ref: str, alt: str, answer: int) -> None:
    assert classify_alleles(columns((pos, ref, alt)), BASES[:0], 0, False, LENGTH, 8).tolist() == [answer]


@each_row("ties", [1, 2, MOST_TIES, MOST_TIES + 1])
def test_ties_are_ordered_up_to_a_number(ties: int) -> None:
    alleles = [(2, "A", "C"), *((5, "A", "C" * size) for size in range(ties, 0, -1)), (6, "A", "C")]
    order = np.arange(len(alleles))
    assert order_ties(order, columns(*alleles)) is (ties <= MOST_TIES)
    if ties <= MOST_TIES:
        assert order.tolist() == [0, *range(ties, 0, -1), ties + 1]
