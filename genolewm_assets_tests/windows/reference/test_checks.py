"""Checks of a window table: a sound one passes, each planted fault is found by the check that names it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import Contig, WindowProfile
from genolewm_assets.windows.bases import BASES_NAME, write_bases, write_window_table
from genolewm_assets.windows.reference.checks import WINDOW_CHECKS, check_window_table
from genolewm_assets.windows.reference.schema import WINDOWS
from genolewm_assets.windows.reference.table import build_window_table, with_bases
from genolewm_assets_tests.rows import each_row

PROFILE = WindowProfile("tiny", window_bp=60, stride_bp=30, margin_bp=6)
SEQUENCE = b"NN" + b"ACGTTGCAAC" * 12 + b"N" + b"GATTACA" * 10 + b"R"
STARTS = (8, 38)


def row(start: int, **changes: object) -> dict[str, object]:
    digest = hashlib.sha256(SEQUENCE[start : start + 60])
    stated: dict[str, object] = {"contig": "chr1", "start": start, "end": start + 60, "gc": 0.5, "frame": start % 6}
    stated |= {"window_hash": digest.digest(), "window_id": digest.hexdigest()[:32], "strand": "+"}
    texts = {"left_flank": (start - 6, start), "sequence": (start, start + 60), "right_flank": (start + 60, start + 66)}
    stated |= {name: SEQUENCE[slice(*span)].decode() for name, span in texts.items()}
    return {**stated, "gap_distance_bp": 0, **changes}


def failed(folder: Path, rows: list[dict[str, object]], bases: bytes | None = None) -> list[str]:
    path = folder / "windows.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=WINDOWS.arrow), path)
    path.with_name(BASES_NAME).unlink(missing_ok=True)
    try:
        write_bases(path)
    except CorruptResourceError:
        # A window with other bases is not written.
        np.save(path.with_name(BASES_NAME), np.zeros(0, np.uint8))
    results = check_window_table(path, SEQUENCE, PROFILE)
    assert tuple(result.name for result in results) == WINDOW_CHECKS
    return [result.name for result in results if not result.passed]


def test_a_sound_table_passes(tmp_path) -> None:
    assert failed(tmp_path, [row(start) for start in STARTS]) == []


@each_row(
    ("changed", "checks"),
    [
        (row(38, window_id="0" * 32), ["window_hashes_right"]),
        (row(39), ["windows_tile_contig"]),
        (row(80), ["windows_tile_contig", "windows_hold_only_acgt", "bases_right"]),
        (row(38, left_flank="AAAAAA"), ["texts_right"]),
        (row(38, right_flank=""), ["texts_right"]),
        (row(38, sequence="A" * 60), ["texts_right"]),
    ],
)
def test_each_planted_fault_is_found(tmp_path, changed: dict[str, object], checks: list[str]) -> None:
    assert failed(tmp_path, [row(8), changed]) == checks


def test_another_schema_stops_the_other_checks(tmp_path) -> None:
    path = tmp_path / "windows.parquet"
    pq.write_table(pa.Table.from_pylist([row(8)], schema=WINDOWS.arrow).drop_columns(["gc"]), path)
    assert [result.name for result in check_window_table(path, SEQUENCE, PROFILE) if not result.passed] == list(
        WINDOW_CHECKS
    )


def test_a_contig_without_room_for_a_window_says_that_nothing_was_compared(tmp_path) -> None:
    path = tmp_path / "windows.parquet"
    assert write_window_table(path, WINDOWS, []) == 0
    write_bases(path)
    results = check_window_table(path, b"N" * 200, PROFILE)
    assert all(result.passed for result in results)
    for result in results[1:]:
        assert result.figures["compared"] == 0
    # With room for windows, a table without any is wrong in the check of the tiling, and the others compared nothing.
    assert failed(tmp_path, []) == [name for name in WINDOW_CHECKS[1:] if name != "bases_right"]


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"\1", lambda data: data[:-1] + b"\7"])
def test_bases_that_are_not_those_of_the_table_are_found(tmp_path, change) -> None:
    path = tmp_path / "windows.parquet"
    table = build_window_table(Contig("chr1", len(SEQUENCE)), SEQUENCE, PROFILE, {})
    write_window_table(path, WINDOWS, with_bases(table, SEQUENCE, margin_bp=PROFILE.margin_bp))
    write_bases(path)
    assert all(result.passed for result in check_window_table(path, SEQUENCE, PROFILE))
    file = path.with_name(BASES_NAME)
    np.save(file, np.frombuffer(change(np.load(file).tobytes()), np.uint8))
    assert [one.name for one in check_window_table(path, SEQUENCE, PROFILE) if not one.passed] == ["bases_right"]
