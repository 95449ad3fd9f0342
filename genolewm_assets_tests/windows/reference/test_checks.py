"""Checks of a window table: a sound one passes, each planted fault is found by the check that names it."""

from __future__ import annotations

import hashlib

import pyarrow as pa

from genolewm_assets.genome import WindowProfile
from genolewm_assets.windows.reference.checks import WINDOW_CHECKS, check_window_table
from genolewm_assets.windows.reference.schema import WINDOWS
from genolewm_assets_tests.rows import each_row

PROFILE = WindowProfile("tiny", window_bp=60, stride_bp=30, margin_bp=6)
SEQUENCE = b"NN" + b"ACGTTGCAAC" * 12 + b"N" + b"GATTACA" * 10 + b"R"
STARTS = (8, 38)


def row(start: int, **changes: object) -> dict[str, object]:
    digest = hashlib.sha256(SEQUENCE[start : start + 60])
    stated: dict[str, object] = {"contig": "chr1", "start": start, "end": start + 60, "gc": 0.5, "frame": start % 6}
    stated |= {"window_hash": digest.digest(), "window_id": digest.hexdigest()[:32], "strand": "+"}
    return {**stated, "gap_distance_bp": 0, **changes}


def failed(rows: list[dict[str, object]]) -> list[str]:
    results = check_window_table(pa.Table.from_pylist(rows, schema=WINDOWS.arrow), SEQUENCE, PROFILE)
    assert tuple(result.name for result in results) == WINDOW_CHECKS
    return [result.name for result in results if not result.passed]


def test_a_sound_table_passes() -> None:
    assert failed([row(start) for start in STARTS]) == []


@each_row(
    ("changed", "checks"),
    [
        (row(38, window_id="0" * 32), ["window_hashes_right"]),
        (row(39), ["windows_tile_contig"]),
        (row(80), ["windows_tile_contig", "windows_hold_only_acgt"]),
        (row(38, gc=None), list(WINDOW_CHECKS)),
        ({**row(38), "start": None}, list(WINDOW_CHECKS)),
    ],
)
def test_each_planted_fault_is_found(changed: dict[str, object], checks: list[str]) -> None:
    assert failed([row(8), changed]) == checks


def test_a_contig_without_room_for_a_window_says_that_nothing_was_compared() -> None:
    results = check_window_table(WINDOWS.empty(), b"N" * 200, PROFILE)
    assert all(result.passed for result in results)
    for result in results[1:]:
        assert result.figures["compared"] == 0
        assert result.figures["not_compared"] == "no ACGT run of the contig holds a window and its margins"
    # With room for windows, a table without any is wrong in every check that would have read them.
    assert failed([]) == list(WINDOW_CHECKS[1:])
