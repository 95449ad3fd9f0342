from __future__ import annotations

import hashlib
from dataclasses import asdict
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.genome import PROFILES
from genolewm_assets.windows.corpus.build import is_in_slice, tile_record
from genolewm_assets.windows.corpus.placement import CorpusPlacer
from genolewm_assets.windows.corpus.records import CorpusRecord, CorpusSource
from genolewm_assets.windows.corpus.windows import CorpusParams
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.sources.corpus import CONTIGS, SMALL, build_rows, gene, random_bases, read_bases

IDS = [f"record{n}" for n in range(3_000)]


def chosen(fraction: float, seed: int = 0) -> set[str]:
    return {name for name in IDS if is_in_slice(name, fraction=fraction, seed=seed)}


def test_slices_are_nested_and_of_their_size() -> None:
    tenth, fifth = chosen(0.1), chosen(0.2)
    assert tenth < fifth < chosen(1.0) == set(IDS)
    assert 240 < len(tenth) < 360
    assert 520 < len(fifth) < 680
    assert tenth != chosen(0.1, seed=1)


def test_the_slice_is_the_same_on_every_machine() -> None:
    assert sorted(chosen(0.002)) == ["record1008", "record1271", "record2563", "record394"]


@each_row("fraction", [0.0, -0.1, 1.01])
def test_an_impossible_slice_is_refused(fraction: float) -> None:
    with pytest.raises(ConfigurationError, match="slice_fraction"):
        CorpusParams(slice_fraction=fraction)


@each_row(
    ("length", "short_windows", "sizes"),
    [
        *((0, True, []), (2_047, True, []), (2_048, True, [1_536]), (2_053, True, [1_536]), (2_054, True, [1_542])),
        *((2_048, False, []), (12_799, True, [12_282]), (12_799, False, []), (12_800, True, [12_288])),
        (12_800, False, [12_288]),
    ],
)
def test_borders_of_the_default_profile(length: int, short_windows: bool, sizes: list[int]) -> None:
    windows = tile_record([(0, length)], "x", CorpusParams(short_windows=short_windows))
    assert [end - start for start, end in windows] == sizes
    assert all(start >= 256 and end + 256 <= length for start, end in windows)


@given(
    lengths=st.lists(st.integers(1, 60_000), min_size=1, max_size=4),
    name=st.text(max_size=8),
    seed=st.integers(0, 9),
    short_windows=st.booleans(),
)
def test_windows_keep_their_margins_and_stride(lengths: list[int], name: str, seed: int, short_windows: bool) -> None:
    runs, at = [], 0
    for length in lengths:
        runs.append((at, at + length))
        at += length + 1
    windows = tile_record(runs, name, CorpusParams(seed=seed, short_windows=short_windows))
    assert windows == sorted(windows)
    for start, end in runs:
        inside = [(a, b) for a, b in windows if start <= a < end]
        assert all(start + 256 <= a and b + 256 <= end and (b - a) % 6 == 0 for a, b in inside)
        assert {b[0] - a[0] for a, b in pairwise(inside)} <= {8_192}
        room = end - start - 12_800
        if room >= 0:
            # The phase may cost one window of those that a tiling from the margin on would have.
            assert 1 + room // 8_192 - 1 <= len(inside) <= 1 + room // 8_192
            assert inside
            assert inside[-1][1] + 256 + 8_192 > end
        else:
            assert len(inside) == (short_windows and end - start >= 2_048)


def build(
    records: list[CorpusRecord], **more: object
) -> tuple[list[dict[str, object]], list[dict[str, object]], dict[str, int]]:
    params = CorpusParams(**{"profile": SMALL, **more})  # type: ignore[arg-type]
    return build_rows(records, params, CorpusPlacer(CONTIGS, read_bases))


def test_rows_say_what_the_record_and_the_reference_have() -> None:
    record = gene("chr20", 5_000, 9_000, "-", note="a note")
    rows, skipped, counts = build([record])
    assert [row["window_index"] for row in rows] == list(range(len(rows)))
    assert skipped == []
    for row in rows:
        start, end = int(str(row["start"])), int(str(row["end"]))
        sequence = str(row["sequence"]).encode()
        assert sequence == record.sequence[start:end]
        assert str(row["left_flank"]).encode() == record.sequence[start - 60 : start]
        assert str(row["right_flank"]).encode() == record.sequence[end : end + 60]
        assert row["window_hash"] == hashlib.sha256(sequence).digest()
        assert row["window_id"] == hashlib.sha256(sequence).hexdigest()[:32]
        assert row["gc"] == pytest.approx((sequence.count(b"G") + sequence.count(b"C")) / 1_200)
        assert (row["placed_contig"], row["strand"], row["placement_exact"]) == ("chr20", "-", True)
        assert (row["placed_start"], row["placed_end"]) == (9_000 - end, 9_000 - start)
        assert (row["taxonomy"], row["note"], row["maybe_human"]) == ("Homo sapiens", "a note", True)
    assert counts["windows"] == counts["placed.coordinates"] == counts["placement_exact"] == len(rows) > 3


def test_other_symbols_split_a_record_and_cost_only_themselves() -> None:
    bases = random_bases(1, 6_000)
    sequence = bases[:2_000] + b"N" * 10 + bases[2_000:4_000] + b"@" + bases[4_000:]
    rows, _, counts = build([gene("chr20", 0, 1, sequence=sequence, taxonomy="Mus musculus", span=None)])
    assert counts["bases_lost_non_acgt"] == 11
    assert counts["bases_in"] == 6_011
    assert all(set(str(row["sequence"])) <= set("ACGT") for row in rows)
    homes = {0 if int(str(row["end"])) <= 2_000 else 1 if int(str(row["end"])) <= 4_010 else 2 for row in rows}
    assert homes == {0, 1, 2}


def test_every_record_and_base_is_accounted_for() -> None:
    records = [
        gene("chr20", 5_000, 9_000, record_id="used"),
        gene("chr20", 5_000, 9_000, record_id="used"),
        gene("chr20", 6_000, 9_500, record_id="used"),
        gene("chr20", 6_000, 6_500, record_id="short"),
        gene("chr20", 0, 0, record_id="empty", span=None),
        gene("chr20", 0, 0, record_id="split", sequence=(b"A" * 1_000 + b"N") * 3, span=None),
    ]
    rows, skipped, counts = build(records)
    assert [(row["record_id"], row["length_bp"], row["reason"]) for row in skipped] == [
        ("used", 4_000, "duplicate"),
        ("short", 500, "too_short"),
        ("empty", 0, "empty"),
        ("split", 3_003, "split_too_short"),
    ]
    names = {str(row["record_id"]) for row in rows}
    digest = hashlib.sha256(records[2].sequence).hexdigest()[:8]
    assert names == {"used", f"used~{digest}"}
    assert (counts["records_in"], counts["records_used"], counts["record_ids_made_unique"]) == (6, 2, 1)
    kinds = ("bases_lost_non_acgt", "bases_in_windows", "bases_in_no_window", "bases_duplicate")
    assert counts["bases_in"] == sum(len(record.sequence) for record in records) == sum(counts[kind] for kind in kinds)


def test_what_the_slice_leaves_out_is_counted_not_listed() -> None:
    records = [gene("chr20", 5_000, 9_000, record_id=name) for name in IDS[:100]]
    rows, skipped, counts = build(records, slice_fraction=0.1)
    used = {str(row["record_id"]) for row in rows}
    assert used == chosen(0.1) & set(IDS[:100])
    assert (counts["skipped.sliced_out"], skipped) == (100 - len(used), [])


def test_rows_do_not_depend_on_the_order_of_records() -> None:
    records = [gene("chr20", at, at + 4_000, record_id=f"r{at}") for at in range(0, 30_000, 3_000)]
    rows, _, _ = build(records)
    turned, _, _ = build(records[::-1])

    def key(row: dict[str, object]) -> tuple[str, str]:
        return str(row["record_id"]), f"{row['window_index']:04}"

    assert sorted(rows, key=key) == sorted(turned, key=key)


def test_the_recipe_holds_everything_the_windows_depend_on() -> None:
    recipe = CorpusParams(PROFILES["dense"], 0.1, 3, short_windows=True).as_recipe()
    assert (recipe["slice_fraction"], recipe["seed"], recipe["short_windows"]) == (0.1, 3, True)
    assert recipe["profile"] == asdict(PROFILES["dense"])


@each_row(
    ("source", "junctions", "expected"),
    [
        *(("mrna_evo2", None, True), ("mrna_splice_evo2", (3, 5), True), ("mrna_splice_evo2", (), False)),
        ("eukaryote_generator", None, False),
    ],
)
def test_transcripts_count_as_spliced_unless_they_are_one_exon(
    source: str, junctions: tuple[int, ...] | None, expected: bool
) -> None:
    assert CorpusRecord(CorpusSource(source), "x", b"ACGTACGT", junctions=junctions).spliced is expected
