from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.genome import Holdout, IntervalArray
from genolewm_assets.lewm.holdouts.corpus import hold_out_corpus
from genolewm_assets.lewm.holdouts.schema import HOLDOUT_CORPUS
from genolewm_assets_tests.worlds.lewm.holdout_world import Row, corpus, corpus_row

MARGIN = 60


def intervals(**spans: tuple[int, int]) -> dict[str, IntervalArray]:
    return {contig: IntervalArray(np.array([start]), np.array([end])) for contig, (start, end) in spans.items()}


HELD = {Holdout.CHR: intervals(chr21=(0, 120_000)), Holdout.CLINVAR: intervals(chr17=(10_000, 20_000))}


def reasons(row: Row, inconclusive: set[str] = set()) -> dict[str, str]:  # noqa: B006
    table = hold_out_corpus([corpus([row])], HELD, inconclusive=inconclusive, margin_bp=MARGIN)
    HOLDOUT_CORPUS.check(table.schema, where="test")
    return dict(zip(table["holdout"].to_pylist(), table["reason"].to_pylist(), strict=True))


def placed(contig: str | None, start: int | None = None, end: int | None = None, how: str = "coordinates") -> Row:
    return corpus_row(1, how, placed_contig=contig, placed_start=start, placed_end=end)


@pytest.mark.parametrize("how", ["coordinates", "mappy"])
@pytest.mark.parametrize(
    ("start", "end", "out"),
    [(8_000, 9_940, False), (8_000, 9_941, True), (20_059, 21_000, True), (20_060, 21_000, False), (0, 90_000, True)],
)
def test_place_with_both_flanks(how: str, start: int, end: int, out: bool) -> None:
    assert reasons(placed("chr17", start, end, how)) == ({"holdout-clinvar": "placed"} if out else {})


def test_everything_on_a_held_out_contig() -> None:
    assert reasons(placed("chr21", 5, 9)) == {"holdout-chr": "placed"}
    assert reasons(placed("chr21", how="contig_name")) == {"holdout-chr": "fail_closed"}


def test_contig_name_alone_does_not_say_that_a_window_is_outside_its_intervals() -> None:
    assert reasons(placed("chr17", how="contig_name")) == {"holdout-clinvar": "fail_closed"}
    assert reasons(placed("chr5", how="contig_name")) == {}


def test_unknown_place_is_fine_where_a_search_finds_everything() -> None:
    assert reasons(placed(None, how="none")) == {}


@pytest.mark.parametrize("contig", ["chr21", "chr17"])
def test_inconclusive_contig_takes_everything_that_may_be_from_it(contig: str) -> None:
    holdout = {"chr21": "holdout-chr", "chr17": "holdout-clinvar"}[contig]
    expected = {holdout: "fail_closed"}
    assert reasons(placed(None, how="none"), {contig}) == expected
    # An alignment elsewhere may be to a copy of what the reference lacks.
    assert reasons(placed("chr5", 1, 2_000, "mappy"), {contig}) == expected
    assert reasons(placed("chr5", 1, 2_000), {contig}) == {}
    assert reasons(placed("chr5", how="contig_name"), {contig}) == {}
    assert reasons({**placed(None, how="none"), "maybe_human": False}, {contig}) == {}


def test_inconclusive_contig_without_held_out_intervals_is_nothing() -> None:
    assert reasons(placed(None, how="none"), {"chr5"}) == {}


def test_place_is_the_reason_where_both_hold() -> None:
    assert reasons(placed("chr21", 5, 9, "mappy"), {"chr21", "chr17"}) == {
        "holdout-chr": "placed",
        "holdout-clinvar": "fail_closed",
    }


def test_rows_are_sorted_and_batches_do_not_matter() -> None:
    rows = [corpus_row(n, placed_contig="chr21", placed_start=n, placed_end=n + 9) for n in (3, 1, 2)]
    one = hold_out_corpus([corpus(rows)], HELD, inconclusive=set(), margin_bp=MARGIN)
    several = hold_out_corpus([corpus([row]) for row in rows], HELD, inconclusive=set(), margin_bp=MARGIN)
    assert one.equals(several)
    assert one["record_id"].to_pylist() == ["record1", "record2", "record3"]
    assert hold_out_corpus([], HELD, inconclusive=set(), margin_bp=MARGIN).equals(HOLDOUT_CORPUS.empty())


PLACES = st.tuples(
    st.sampled_from(["coordinates", "mappy", "contig_name", "none"]),
    st.sampled_from(["chr17", "chr21", "chr5"]),
    st.integers(0, 30_000),
    st.booleans(),
)


@given(st.lists(PLACES, max_size=12), st.sets(st.sampled_from(["chr17", "chr21", "chr5"])))
def test_equal_to_a_plain_referee(places: list[tuple[str, str, int, bool]], inconclusive: set[str]) -> None:
    rows, expected = [], set()
    for number, (how, contig, start, human) in enumerate(places):
        known, named = how in ("coordinates", "mappy"), how != "none"
        rows.append(
            corpus_row(
                number,
                how,
                maybe_human=human or named,
                placed_contig=contig if named else None,
                placed_start=start if known else None,
                placed_end=start + 1_200 if known else None,
            )
        )
        for holdout, held in HELD.items():
            if known and contig in held and any(a < start + 1_260 and start - 60 < b for a, b in held[contig]):
                expected.add((f"record{number}", holdout, "placed"))
            elif (how == "contig_name" and contig in held) or (
                how in ("none", "mappy") and (human or named) and set(held) & inconclusive
            ):
                expected.add((f"record{number}", holdout, "fail_closed"))
    table = hold_out_corpus([corpus(rows)], HELD, inconclusive=inconclusive, margin_bp=MARGIN)
    found = zip(*(table[name].to_pylist() for name in ("record_id", "holdout", "reason")), strict=True)
    assert set(found) == expected
    assert table.num_rows == len(expected)
