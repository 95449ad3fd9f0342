from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from genolewm_assets.genome import Contig
from genolewm_assets.variants.kernels import MOST_TIES, NORMAL, UNDECIDED, AlleleColumns, classify_alleles
from genolewm_assets.variants.normal_form import AlleleNormaliser, Rejection, alt_problem
from genolewm_assets.variants.order import KEY, LowMarks, columns_of, order_alleles, without_rows
from genolewm_assets.variants.schema import RejectReason
from genolewm_assets.variants.spans import allele_keys, allele_spans, as_bools
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.holdout_world import gnomad
from genolewm_assets_tests.worlds.sources.spelled_alleles import SEQUENCE, TOY

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


@each_row(
    ("pos", "ref", "alt", "expected", "unaligned"),
    [
        (3, "g", "c", (3, "G", "C"), None),
        (9, "T", "TT", (4, "A", "AT"), (9, "T", "TT")),
        (11, "ACACAC", "ACAC", (9, "TCA", "T"), (11, "ACA", "A")),
        (3, "GAT", "GCT", (4, "A", "C"), None),
        (18, "T", "A", (18, "T", "A"), None),
        (3, "G", "C" * 20, (3, "G", "C" * 20), None),
        (3, "G", "C" * 21, RejectReason.TOO_LONG, None),
        (2, "NG", "N", RejectReason.IUPAC, None),
        (2, "NG", "A", RejectReason.REF_NOT_ACGT, None),
        (3, "", "A", RejectReason.REF_NOT_ACGT, None),
        (3, "G", "g", RejectReason.NO_CHANGE, None),
        (3, "T", "C", RejectReason.REF_MISMATCH, (3, "T", "C")),
        (0, "G", "C", RejectReason.OUT_OF_RANGE, None),
        (19, "TA", "T", RejectReason.OUT_OF_RANGE, None),
    ],
)
def test_normal_form_with_a_reference_and_without(
    pos: int, ref: str, alt: str, expected: Key | RejectReason, unaligned: Key | None
) -> None:
    """Without one, alleles are trimmed only; ``unaligned`` is that form where it is another."""
    for reference, form in ((lambda _: SEQUENCE, expected), (None, unaligned or expected)):
        outcome = AlleleNormaliser(reference, max_allele_bp=20).normalise(TOY, pos, ref, alt)
        assert (outcome.reason if isinstance(outcome, Rejection) else tuple(outcome)) == form


def test_nothing_is_read_outside_the_part_of_the_contig_that_is_known() -> None:
    bases, table = np.frombuffer(SEQUENCE, np.uint8), columns((9, "T", "A"), (11, "A", "C"), (9, "TCA", "G"))
    for first, end, expected in (
        (0, 19, [NORMAL, NORMAL, NORMAL]),
        (0, 10, [NORMAL, UNDECIDED, UNDECIDED]),
        # The last base is a T, as the one before the first.
        (9, 18, [UNDECIDED, NORMAL, UNDECIDED]),
    ):
        assert classify_alleles(table, bases[first:end], first, True, 19, 8).tolist() == expected
    assert classify_alleles(table, bases, 0, True, 10, 8).tolist() == [NORMAL, UNDECIDED, UNDECIDED]


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
