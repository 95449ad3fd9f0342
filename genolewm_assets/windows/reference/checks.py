"""Checks of a window table, by code that shares no tiling code with the builder."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from genolewm_assets.genome import Bases, WindowProfile
from genolewm_assets.store.artefacts import Check, CheckResult, RowsAtFault, stating_compared
from genolewm_assets.store.tables import SCHEMA_AS_DECLARED, check_schema, not_run, read_batches, read_table
from genolewm_assets.windows.bases import BASES_RIGHT, TEXTS, check_bases
from genolewm_assets.windows.reference.schema import WINDOWS

WINDOWS_HOLD_ONLY_ACGT = Check("windows_hold_only_acgt", "Every window consists of the bases A, C, G and T only.")
WINDOW_HASHES_RIGHT = Check(
    "window_hashes_right", "The SHA-256 and the id of every row equal those computed again from its window."
)
TEXTS_RIGHT = Check("texts_right", "The bases of every window and of its flanks equal those of the contig there.")
#: Checks of :func:`check_window_table`, in the order of the results.
WINDOW_CHECKS = (
    SCHEMA_AS_DECLARED,
    Check(
        "windows_tile_contig",
        "The contig has exactly the windows that RFC-0006 section 3.2 defines, in every run of A, C, G and T.",
    ),
    WINDOWS_HOLD_ONLY_ACGT,
    WINDOW_HASHES_RIGHT,
    TEXTS_RIGHT,
    BASES_RIGHT,
)

_RUN = re.compile(rb"[ACGT]+")
_PIECE_BP = 1 << 20
#: Columns that are compared with the contig, and rows of them that are read at a time.
_COMPARED, _READ_ROWS = ["start", "end", "window_hash", "window_id", *TEXTS], 512
#: Start and end where there is no window, or where none is expected.
_ABSENT = (None, None)


def check_window_table(path: Path, sequence: Bases, profile: WindowProfile) -> tuple[CheckResult, ...]:
    """Run all content checks of ``windows/index`` on the table of one contig and on its bases beside it.

    Parameters
    ----------
    path
        Parquet file of the schema ``WINDOWS``.
    sequence
        The contig, upper-case ASCII; read twice from start to end, one window or piece at a time.

    Returns
    -------
    tuple of CheckResult
        In the order of :data:`WINDOW_CHECKS`.
    """
    first = _check_schema(path)
    if not first.passed:
        return (first, *map(not_run, WINDOW_CHECKS[1:]))
    table = read_table(path, columns=["start", "end"])
    tiled = check_tiling(table, sequence, profile)
    found = (tiled, *check_content(path, sequence, profile.margin_bp), check_bases(path))
    # Without windows the tiling has shown that the contig has room for none.
    nothing = "no ACGT run of the contig holds a window and its margins"
    return (first, *(stating_compared(one, table.num_rows, nothing, declared=tiled.passed) for one in found))


def check_tiling(table: pa.Table, sequence: Bases, profile: WindowProfile) -> CheckResult:
    """Compare starts and ends with the tiling of each ACGT run as RFC-0006 §3.2 specifies it."""
    first, reach = profile.margin_bp, profile.window_bp + profile.margin_bp
    expected: list[int] = []
    for run_start, run_end in _runs(sequence):
        room = run_end - run_start - first - reach
        if room < 0:
            continue
        steps = room // profile.stride_bp
        expected.extend(run_start + first + n * profile.stride_bp for n in range(steps + 1))
        if profile.cover_tails and room % profile.stride_bp:
            expected.append(run_end - reach)
    starts, ends = table["start"].to_pylist(), table["end"].to_pylist()
    figures = {"windows": len(starts), "expected_windows": len(expected)}
    pairs = ((start, start + profile.window_bp) for start in expected)
    wrong = [
        {"row": row, "start": got[0], "end": got[1], "expected_start": wanted[0], "expected_end": wanted[1]}
        for row, (got, wanted) in enumerate(zip_longest(zip(starts, ends, strict=True), pairs, fillvalue=_ABSENT))
        if got != wanted
    ]
    return CheckResult("windows_tile_contig", passed=not wrong, figures=figures, rows=wrong)


def _runs(sequence: Bases) -> Iterator[tuple[int, int]]:
    """Yield the ACGT runs, 0-based half-open; a run that is cut by the border of two pieces is put together again."""
    start = end = 0
    for first in range(0, len(sequence), _PIECE_BP):
        for run in _RUN.finditer(sequence[first : first + _PIECE_BP]):
            if first + run.start() > end:
                if end > start:
                    yield start, end
                start = first + run.start()
            end = first + run.end()
    if end > start:
        yield start, end


def check_content(path: Path, sequence: Bases, margin_bp: int) -> tuple[CheckResult, CheckResult, CheckResult]:
    """Compare letters, hashes, ids and texts of every row with the contig, read again."""
    other, wrong, differing, row, foreign = RowsAtFault(), RowsAtFault(), RowsAtFault(), 0, 0
    for batch in read_batches(path, _READ_ROWS, _COMPARED):
        for start, end, digest, window_id, *texts in zip(*(batch[name].to_pylist() for name in _COMPARED), strict=True):
            shown = {"row": row, "start": start, "end": end, "window_id": window_id}
            bases = sequence[start:end]
            if found := len(bases.translate(None, b"ACGT")):
                foreign += found
                other.add(**shown, other_bases=found)
            fresh = hashlib.sha256(bases)
            if fresh.digest() != digest or fresh.hexdigest()[:32] != window_id:
                fresh_id, fresh_hash = fresh.hexdigest()[:32], fresh.hexdigest()
                wrong.add(**shown, expected_id=fresh_id, window_hash=digest, expected_hash=fresh_hash)
            around = sequence[max(0, start - margin_bp) : start], bases, sequence[end : end + margin_bp]
            faulty = [name for name, text, true in zip(TEXTS, texts, around, strict=True) if text.encode() != true]
            if faulty:
                differing.add(**shown, differing=", ".join(faulty))
            row += 1
    figures = {"windows_with_other_bases": len(other), "other_bases": foreign}
    return (
        CheckResult(WINDOWS_HOLD_ONLY_ACGT, not other, figures, tuple(other)),
        CheckResult(WINDOW_HASHES_RIGHT, not wrong, {"wrong_hashes": len(wrong)}, tuple(wrong)),
        CheckResult(TEXTS_RIGHT, not differing, {"differing": len(differing)}, tuple(differing)),
    )


def _check_schema(path: Path) -> CheckResult:
    """Check columns, types and values of a file, some rows at a time."""
    found, rows = check_schema(pq.read_schema(path).empty_table(), WINDOWS), 0
    for batch in read_batches(path, _READ_ROWS) if found.passed else ():
        one, rows = check_schema(pa.Table.from_batches([batch]), WINDOWS), rows + batch.num_rows
        if not one.passed:
            return one
    return replace(found, figures={**found.figures, "rows": rows})
