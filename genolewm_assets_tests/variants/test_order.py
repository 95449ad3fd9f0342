from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from genolewm_assets.variants.kernels import MOST_TIES
from genolewm_assets.variants.order import KEY, LowMarks, find_repeats, order_alleles, without_rows

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


@pytest.mark.parametrize("ties", [2, MOST_TIES, MOST_TIES + 1, 500])
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
