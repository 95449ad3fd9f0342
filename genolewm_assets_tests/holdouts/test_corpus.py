from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.genome import Holdout, IntervalArray
from genolewm_assets.holdouts.corpus import CorpusRule
from genolewm_assets.holdouts.schema import HOLDOUT_CORPUS
from genolewm_assets.windows.corpus.placement import CorpusPlacer
from genolewm_assets.windows.corpus.records import CorpusRecord, CorpusSource
from genolewm_assets.windows.corpus.windows import CorpusParams
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.lewm.holdout_world import Row, corpus, corpus_row
from genolewm_assets_tests.worlds.sources.corpus import CONTIGS as SMALL_CONTIGS
from genolewm_assets_tests.worlds.sources.corpus import (
    SMALL,
    ExactAligner,
    build_tables,
    gene,
    random_bases,
    read_bases,
)

MARGIN = 60


def intervals(**spans: tuple[int, int]) -> dict[str, IntervalArray]:
    return {contig: IntervalArray(np.array([start]), np.array([end])) for contig, (start, end) in spans.items()}


HELD = {Holdout.CHR: intervals(chr21=(0, 120_000)), Holdout.CLINVAR: intervals(chr17=(10_000, 20_000))}


def reasons(row: Row, inconclusive: set[str] = set()) -> dict[str, str]:  # noqa: B006
    table = pa.concat_tables(CorpusRule(HELD, inconclusive, MARGIN).list_excluded([corpus([row])]))
    HOLDOUT_CORPUS.check(table.schema, where="test")
    return dict(zip(table["holdout"].to_pylist(), table["reason"].to_pylist(), strict=True))


def placed(contig: str | None, start: int | None = None, end: int | None = None, how: str = "coordinates") -> Row:
    return corpus_row(1, how, placed_contig=contig, placed_start=start, placed_end=end)


@each_row("how", ["coordinates", "mappy", "stated"])
@each_row(
    ("start", "end", "out"),
    [(8_000, 9_940, False), (8_000, 9_941, True), (20_059, 21_000, True), (20_060, 21_000, False), (0, 90_000, True)],
)
def test_place_with_both_flanks(how: str, start: int, end: int, out: bool) -> None:
    assert reasons(placed("chr17", start, end, how)) == ({"holdout-clinvar": "placed"} if out else {})


def test_contig_name_alone_does_not_say_that_a_window_is_outside_its_intervals() -> None:
    assert reasons(placed("chr17", how="contig_name")) == {"holdout-clinvar": "fail_closed"}
    assert reasons(placed("chr5", how="contig_name")) == {}


@pytest.mark.parametrize("contig", ["chr21", "chr17"])
def test_inconclusive_contig_takes_everything_that_may_be_from_it(contig: str) -> None:
    holdout = {"chr21": "holdout-chr", "chr17": "holdout-clinvar"}[contig]
    expected = {holdout: "fail_closed"}
    assert reasons(placed(None, how="none"), {contig}) == expected
    # An alignment elsewhere may be to a copy of what the reference lacks, and what a record states may be false.
    assert reasons(placed("chr5", 1, 2_000, "mappy"), {contig}) == expected
    assert reasons(placed("chr5", 1, 2_000, "stated"), {contig}) == expected
    assert reasons(placed("chr5", how="contig_name"), {contig}) == expected
    assert reasons(placed("chr5", 1, 2_000), {contig}) == {}
    assert reasons({**placed(None, how="none"), "maybe_human": False}, {contig}) == {}


def test_place_is_the_reason_where_both_hold() -> None:
    assert reasons(placed("chr21", 5, 9, "mappy"), {"chr21", "chr17"}) == {
        "holdout-chr": "placed",
        "holdout-clinvar": "fail_closed",
    }


def test_stated_coordinates_count_beside_an_alignment_elsewhere() -> None:
    aligned = placed("chr5", 1, 2_000, "mappy")
    stated = {"stated_contig": "chr17", "stated_start": 20_059, "stated_end": 21_000}
    assert reasons({**aligned, **stated}) == {"holdout-clinvar": "placed"}
    assert reasons({**aligned, **stated, "stated_start": 20_060}) == {}
    assert reasons({**aligned, "stated_contig": "chr17"}) == {"holdout-clinvar": "fail_closed"}
    assert reasons({**aligned, "stated_contig": "chr5"}) == {}


def held_gene(**more: object) -> CorpusRecord:
    return gene("chr20", 5_000, 9_000, **more)


def prokaryote(taxonomy: str | None) -> CorpusRecord:
    return held_gene(source=CorpusSource.PROKARYOTE_EVO2, taxonomy=taxonomy, contig=None, span=None)


#: Held out: the gene on chr20:4,000-10,000 of the small reference, of which chr21 is N up to 10,000.
#: Records with bases of it, and how their windows are placed.
HUMANS = ("human", "9606", "H. sapiens", "homo_sapiens", "Hominidae", "unknown", "Mammalia", None)
OF_THE_GENE = {f"taxonomy {name!r}": (held_gene(taxonomy=name), "coordinates") for name in HUMANS}
ALIGNED = {
    **{"prokaryote without a taxon": prokaryote(None), "prokaryote called unknown": prokaryote("unknown")},
    "coordinates on N": held_gene(contig="chr21", span=(2_000, 6_000)),
    "coordinates on a contig that the genome lacks": held_gene(contig="chr7"),
    "coordinates of another build": held_gene(span=(30_000, 34_000)),
    "false coordinates on another contig": held_gene(contig="chr21", span=(12_000, 16_000)),
    "false coordinates beyond another contig": held_gene(contig="chr21", span=(28_000, 32_000)),
    "a note that only says chr13": held_gene(contig="chr13", span=None),
    "a note that only says chr21": held_gene(contig="chr21", span=None),
    "other strand": replace(gene("chr20", 5_000, 9_000, "-", contig="chr21", span=(12_000, 16_000)), strand="+"),
}
OF_THE_GENE |= {name: (record, "mappy") for name, record in ALIGNED.items()}


@pytest.mark.parametrize(("record", "how"), OF_THE_GENE.values(), ids=OF_THE_GENE)
def test_bases_of_a_held_out_gene_leave_training_whatever_their_record_states(record: CorpusRecord, how: str) -> None:
    placer = CorpusPlacer(SMALL_CONTIGS, read_bases, ExactAligner())
    windows, *_ = build_tables([record], CorpusParams(SMALL), placer)
    assert windows.num_rows > 3
    assert set(windows["placement_how"].to_pylist()) == {how}
    held = {Holdout.CLINVAR: intervals(chr20=(4_000, 10_000))}
    table = pa.concat_tables(CorpusRule(held, set(), MARGIN).list_excluded([windows]))
    assert table["reason"].to_pylist() == ["placed"] * windows.num_rows


def test_bases_that_the_reference_lacks_leave_training_while_a_held_out_contig_is_inconclusive() -> None:
    """Only confirmed coordinates keep a window that may be human: whatever else a record states, it may be false."""
    unknown = random_bases(1, 4_000)
    records = [
        gene("chr20", 5_000, 9_000, record_id="confirmed"),
        gene("chr20", 15_000, 19_000, record_id="aligned", span=None, contig=None),
        gene("chr20", 5_000, 9_000, record_id="refuted", sequence=unknown),
        gene("chr21", 2_000, 6_000, record_id="on N", sequence=unknown),
        gene("chr20", 5_000, 9_000, record_id="named", sequence=unknown, span=None),
        gene("chr20", 5_000, 9_000, record_id="prokaryote", sequence=unknown, span=None, contig=None, taxonomy=None),
        gene("chr20", 5_000, 9_000, record_id="bacterium", sequence=unknown, taxonomy="Bacteria"),
    ]
    placer = CorpusPlacer(SMALL_CONTIGS, read_bases, ExactAligner())
    windows, *_ = build_tables(records, CorpusParams(SMALL), placer)
    held = {Holdout.CHR: intervals(chr5=(0, 1_000))}
    table = pa.concat_tables(CorpusRule(held, {"chr5"}, MARGIN).list_excluded([windows]))
    assert set(table["record_id"].to_pylist()) == {r.record_id for r in records} - {"confirmed", "bacterium"}
    assert set(table["reason"].to_pylist()) == {"fail_closed"}


PLACES = st.tuples(
    st.sampled_from(["coordinates", "mappy", "stated", "contig_name", "none"]),
    st.sampled_from(["chr17", "chr21", "chr5"]),
    st.integers(0, 30_000),
    st.booleans(),
    st.sampled_from([None, "chr17", "chr21", "chr5"]),
    st.one_of(st.none(), st.integers(0, 30_000)),
)
CONTIG_NAMES = st.sets(st.sampled_from(["chr17", "chr21", "chr5"]))


@given(st.lists(PLACES, max_size=12), CONTIG_NAMES)
def test_equal_to_a_plain_referee(
    places: list[tuple[str, str, int, bool, str | None, int | None]], inconclusive: set[str]
) -> None:
    rows, expected = [], set()
    for number, (how, contig, start, human, stated, at) in enumerate(places):
        known, named = how in ("coordinates", "mappy", "stated"), how != "none"
        claims = [(contig, start if known else None)] if named else []
        row: Row = {"placed_contig": contig if named else None}
        if known:
            row |= {"placed_start": start, "placed_end": start + 1_200}
        if how == "mappy" and stated:
            claims.append((stated, at))
            row |= {"stated_contig": stated, "stated_start": at, "stated_end": None if at is None else at + 1_200}
        rows.append(corpus_row(number, how, maybe_human=human or named, **row))
        for holdout, held in HELD.items():
            on = [(name, first) for name, first in claims if name in held]
            if any(a < x + 1_260 and x - 60 < b for name, x in on if x is not None for a, b in held[name]):
                expected.add((f"record{number}", holdout, "placed"))
            elif any(first is None for _, first in on) or (
                how != "coordinates" and (human or named) and set(held) & inconclusive
            ):
                expected.add((f"record{number}", holdout, "fail_closed"))
    table = pa.concat_tables(CorpusRule(HELD, inconclusive, MARGIN).list_excluded([corpus(rows)]))
    found = zip(*(table[name].to_pylist() for name in ("record_id", "holdout", "reason")), strict=True)
    assert set(found) == expected
    assert table.num_rows == len(expected)
