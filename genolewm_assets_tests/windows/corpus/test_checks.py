"""Each check passes on what the builder makes and finds what is planted for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from genolewm_assets.store.artefacts.check_result import CheckResult
from genolewm_assets.windows.corpus.checks import CORPUS_CHECKS, check_corpus_windows
from genolewm_assets.windows.corpus.placement import CorpusPlacer
from genolewm_assets.windows.corpus.records import CorpusRecord, CorpusSource, RecordFault, SkipReason
from genolewm_assets.windows.corpus.windows import CORPUS_SKIPPED, CORPUS_WINDOWS, CorpusLedger, CorpusParams
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.sources.corpus import (
    BASES,
    CONTIGS,
    SMALL,
    ExactAligner,
    build_rows,
    gene,
    random_bases,
    read_bases,
)

Row = dict[str, Any]
SPLICED = {
    "sequence": BASES["chr20"][1_000:2_500] + BASES["chr20"][4_000:5_000] + BASES["chr20"][7_600:9_000],
    "junctions": (1_500, 2_500),
}
PARAMS = CorpusParams(SMALL, slice_fraction=0.9, seed=4, short_windows=True)
RECORDS: list[CorpusRecord] = [
    gene("chr20", 5_000, 9_000, record_id="plus"),
    gene("chr20", 15_000, 19_000, "-", record_id="minus"),
    gene("chr20", 25_000, 29_000, record_id="aligned", contig=None, span=None),
    gene("chr20", 25_000, 29_000, record_id="aligned", contig=None, span=None),
    gene("chr20", 25_000, 29_000, record_id="on N", contig="chr21", span=(4_000, 8_000)),
    gene("chr21", 2_000, 6_000, record_id="stated", sequence=random_bases(6, 4_000)),
    gene("chr20", 1_000, 9_000, record_id="spliced", **SPLICED),
    gene("chr20", 1_000, 1_300, record_id="short"),
    gene("chr21", 12_000, 16_000, record_id="plus"),
    gene("chr20", 0, 1, record_id="split", sequence=random_bases(3, 2_000) + b"NN" + random_bases(4, 2_100), span=None),
    gene("chr20", 0, 1, record_id="mouse", sequence=random_bases(5, 3_000), taxonomy="Mus musculus", span=None),
    *(gene("chr20", at, at + 2_000, record_id=f"g{at}") for at in range(0, 20_000, 1_000)),
]


def build(records: list[CorpusRecord]) -> tuple[list[Row], list[Row], dict[str, int]]:
    return build_rows(records, PARAMS, CorpusPlacer(CONTIGS, read_bases, ExactAligner()))


@pytest.fixture(scope="module")
def built() -> tuple[list[Row], list[Row], dict[str, int]]:
    return build(RECORDS)


def check(
    windows: list[Row], skipped: list[Row], counts: dict[str, int], records: list[CorpusRecord] = RECORDS
) -> dict[str, CheckResult]:
    results = check_corpus_windows(
        [pa.Table.from_pylist(windows[at : at + 7], CORPUS_WINDOWS.arrow) for at in range(0, len(windows) + 1, 7)],
        [pa.Table.from_pylist(skipped, CORPUS_SKIPPED.arrow)],
        records,
        params=PARAMS,
        counts=counts,
        contigs=CONTIGS,
        bases=read_bases,
    )
    assert tuple(result.name for result in results) == CORPUS_CHECKS[:-1]
    return {result.name: result for result in results}


def failed(results: dict[str, CheckResult]) -> set[str]:
    return {name for name, result in results.items() if not result.passed}


def test_what_the_builder_makes_passes(built: tuple[list[Row], list[Row], dict[str, int]]) -> None:
    windows, skipped, counts = built
    results = check(windows, skipped, counts)
    assert failed(results) == set()
    assert {result.figures["rows"] for result in results.values()} == {len(windows)}
    assert counts["skipped.sliced_out"] > 0
    assert {row["placement_how"] for row in windows} == {"coordinates", "mappy", "stated", "contig_name", "none"}
    assert {row["reason"] for row in skipped} == {"duplicate", "too_short"}


def find(windows: list[Row], record_id: str) -> Row:
    return next(row for row in windows if row["record_id"] == record_id)


#: What is put into one row, or what makes it of the row.
Change = Row | Callable[[Row], Row]


def moved(*names: str, by: float = 1) -> Callable[[Row], Row]:
    return lambda row: {name: row[name] + by for name in names}


def other_base(row: Row) -> Row:
    return {"sequence": ("C" if row["sequence"][0] != "C" else "G") + row["sequence"][1:]}


PLACED = ("placed_start", "placed_end")
HELD, TILED, HASHED = "placements_hold", "windows_follow_tiling", "window_hashes_right"
ACGT, CUT = "windows_hold_only_acgt", "windows_cut_from_records"
#: What is done to one row, and the checks that must see it (others may, too).
TAMPERED: dict[str, tuple[str, Change, set[str]]] = {
    "base changed": ("plus", other_base, {CUT, HASHED, HELD}),
    "unknown base": ("split", lambda row: {"left_flank": "N" + row["left_flank"][1:]}, {ACGT, CUT}),
    "flank too short": ("plus", lambda row: {"right_flank": row["right_flank"][1:]}, {ACGT, CUT}),
    "shifted": ("minus", moved("start"), {TILED}),
    "other size": ("minus", {"window_bp": 6}, {TILED}),
    "hash of another": ("plus", {"window_hash": b"x" * 32}, {HASHED}),
    "id of another": ("plus", {"window_id": "0" * 32}, {HASHED}),
    "past the record": ("minus", moved("end", by=100_000), {TILED}),
    "no gc": ("plus", {"gc": float("nan")}, {HASHED}),
    "wrong gc": ("plus", moved("gc", by=0.01), {HASHED}),
    "renamed": ("minus", {"record_id": "other"}, {TILED}),
    "called human": ("mouse", {"maybe_human": True}, {CUT}),
}
PLACES: dict[str, tuple[str, Change]] = {
    "on another contig": ("plus", {"placed_contig": "chr21", "placement_exact": False}),
    "on the other strand": ("plus", {"strand": "-", "placement_exact": False}),
    "placed by nothing": ("split", {"placement_how": "stated", "placed_start": 60, "placed_end": 1_260, "strand": "+"}),
    "spliced, on another contig": ("spliced", {"placed_contig": "chr99"}),
    "another contig's name": ("split", {"placed_contig": "chr21"}),
    "other strand": ("plus", {"strand": "-"}),
    "placed one off": ("minus", moved(*PLACED)),
    "beyond the contig": ("plus", {"placed_start": 39_990, "placed_end": 41_190, "placement_exact": False}),
    "not called exact": ("minus", {"placement_exact": False}),
    "called exact": ("split", {"placement_exact": True}),
    "half a place": ("plus", {"placed_end": None}),
    "no contig": ("split", {"placed_contig": None}),
    "unknown kind": ("split", {"placement_how": "guess"}),
    "identity above 1": ("aligned", {"identity": 1.5}),
    "no coverage": ("aligned", {"coverage": None}),
    "stated as confirmed": ("stated", {"placement_how": "coordinates"}),
    "confirmed as stated": ("plus", {"placement_how": "stated"}),
    "spliced, not confirmed": ("spliced", {"placement_how": "stated"}),
    "stated elsewhere": ("stated", moved(*PLACED)),
    "half a stated place": ("on N", {"stated_end": None}),
    "stated place without a contig": ("on N", {"stated_contig": None}),
    "stated twice": ("plus", {"stated_contig": "chr21"}),
    "mouse on our chr20": ("mouse", {"placement_how": "contig_name", "placed_contig": "chr20"}),
}
TAMPERED |= {name: (*row, {HELD}) for name, row in PLACES.items()}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_row_is_found(built: tuple[list[Row], list[Row], dict[str, int]], name: str) -> None:
    windows, skipped, counts = [dict(row) for row in built[0]], *built[1:]
    record_id, change, expected = TAMPERED[name]
    row = find(windows, record_id)
    row |= change(row) if callable(change) else change
    assert expected <= failed(check(windows, skipped, counts))


@each_row("at", [0, 5, -1])
def test_a_lost_or_repeated_row_is_found(built: tuple[list[Row], list[Row], dict[str, int]], at: int) -> None:
    windows, skipped, counts = built
    lost = [row for row in windows if row is not windows[at]]
    assert "windows_follow_tiling" in failed(check(lost, skipped, counts))
    assert "windows_follow_tiling" in failed(check([*windows, windows[at]], skipped, counts))


def test_a_record_that_vanished_is_found(built: tuple[list[Row], list[Row], dict[str, int]]) -> None:
    windows, skipped, counts = built
    rest = [row for row in windows if row["record_id"] != "minus"]
    assert "windows_follow_tiling" in failed(check(rest, skipped, counts))
    assert failed(check(windows, skipped[:-1], counts)) == {"every_record_accounted_for"}
    assert failed(check(windows, [*skipped, skipped[-1]], counts)) == {"every_record_accounted_for"}


@each_row("name", ["records_in", "records_used", "windows", "bases_lost_non_acgt", "skipped.sliced_out"])
def test_a_wrong_count_is_found(built: tuple[list[Row], list[Row], dict[str, int]], name: str) -> None:
    windows, skipped, counts = built
    assert failed(check(windows, skipped, {**counts, name: counts[name] + 1})) == {"every_record_accounted_for"}


@pytest.mark.parametrize("taxonomy", [None, "unknown", "Homo sapiens", "Eukaryota; Metazoa; Mammalia", "Bacteria|9606"])
def test_a_record_called_non_human_without_reason_is_found(
    monkeypatch: pytest.MonkeyPatch, taxonomy: str | None
) -> None:
    monkeypatch.setattr(CorpusRecord, "maybe_human", property(lambda _: False))
    records = [gene("chr20", 1_000 * at, 1_000 * at + 3_000, record_id=f"r{at}", taxonomy=taxonomy) for at in range(20)]
    assert failed(check(*build(records), records)) == {"windows_cut_from_records"}


def test_rows_at_fault_are_listed() -> None:
    fault = RecordFault(SkipReason.UNKNOWN_STRAND, "'up'")
    bad = CorpusRecord(CorpusSource.EUKARYOTE_GENERATOR, "plus", b"ACGT", fault=fault)
    records = [bad, *RECORDS, *(gene("chr20", at, at + 300, record_id=f"h{at}") for at in range(70))]
    windows, skipped, counts = build(records)
    assert (skipped[0]["record_id"], skipped[0]["reason"], skipped[0]["length_bp"]) == ("plus", "unknown_strand", 4)
    results = check(windows, skipped, counts, records)
    assert failed(results) == set()
    other = [{**skipped[0], "reason": "no_id"}, *skipped[1:]]
    assert failed(check(windows, other, counts, records)) == {"every_record_accounted_for"}
    assert failed(check(windows, skipped[1:], counts, records)) == {"every_record_accounted_for"}


def test_a_source_without_windows_compared_its_records_and_one_without_records_nothing() -> None:
    short = [gene("chr20", 1_000 * at, 1_000 * at + 300, record_id=f"short{at}") for at in range(40)]
    results = check(*build(short), short)
    assert failed(results) == set()
    assert results["every_record_accounted_for"].figures["compared"] == 40
    said = results["placements_hold"].figures
    assert (said["compared"], said["not_compared"]) == (0, "every record was skipped")
    nothing = check([], [], CorpusLedger().counts(), [])
    assert failed(nothing) == set(CORPUS_CHECKS[1:-1])
    assert nothing["placements_hold"].figures["not_compared"] == "the source has no record"
