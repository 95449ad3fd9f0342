"""Checks of a window table, by code that shares no tiling code with the builder."""

from __future__ import annotations

import hashlib
import re

import numpy as np
import pyarrow as pa

from genolewm_assets.genome import WindowProfile
from genolewm_assets.lewm.windows.schema import WINDOWS
from genolewm_assets.store.artefacts import CheckResult
from genolewm_assets.store.tables import check_schema, not_run

#: Names of the checks of :func:`check_window_table`, in the order of the results.
WINDOW_CHECKS = ("schema_as_declared", "windows_tile_contig", "windows_hold_only_acgt", "window_hashes_right")

_RUN = re.compile(rb"[ACGT]+")


def check_window_table(table: pa.Table, sequence: bytes, profile: WindowProfile) -> tuple[CheckResult, ...]:
    """Run all content checks of ``windows/index`` on the table of one contig.

    Parameters
    ----------
    table
        The window table.
    sequence
        The whole contig, upper-case ASCII.
    profile
        The profile that the table was built with.

    Returns
    -------
    tuple of CheckResult
        In the order of :data:`WINDOW_CHECKS`.
    """
    first = check_schema(table, WINDOWS)
    if not first.passed:
        return (first, *map(not_run, WINDOW_CHECKS[1:]))
    return (
        first,
        check_tiling(table, sequence, profile),
        check_only_acgt(table, sequence),
        check_hashes(table, sequence),
    )


def check_tiling(table: pa.Table, sequence: bytes, profile: WindowProfile) -> CheckResult:
    """Compare starts and ends with the tiling of each ACGT run as RFC-0006 §3.2 specifies it."""
    first, reach = profile.margin_bp, profile.window_bp + profile.margin_bp
    expected: list[int] = []
    for run in _RUN.finditer(sequence):
        room = len(run.group()) - first - reach
        if room < 0:
            continue
        steps = room // profile.stride_bp
        expected.extend(run.start() + first + n * profile.stride_bp for n in range(steps + 1))
        if profile.cover_tails and room % profile.stride_bp:
            expected.append(run.end() - reach)
    starts, ends = table["start"].to_pylist(), table["end"].to_pylist()
    figures = {"windows": len(starts), "expected_windows": len(expected)}
    sized = all(end - start == profile.window_bp for start, end in zip(starts, ends, strict=True))
    return CheckResult("windows_tile_contig", passed=starts == expected and sized, figures=figures)


def check_only_acgt(table: pa.Table, sequence: bytes) -> CheckResult:
    """Count non-ACGT bases in the windows, by a cumulative sum over the contig."""
    bases = np.frombuffer(sequence, dtype=np.uint8)
    foreign = np.concatenate(([0], np.cumsum(~np.isin(bases, np.frombuffer(b"ACGT", dtype=np.uint8)))))
    found = foreign[table["end"].to_numpy()] - foreign[table["start"].to_numpy()]
    figures = {"windows_with_other_bases": int(np.count_nonzero(found)), "other_bases": int(found.sum())}
    return CheckResult("windows_hold_only_acgt", passed=not found.any(), figures=figures)


def check_hashes(table: pa.Table, sequence: bytes) -> CheckResult:
    """Hash the bases of every window again and compare ``window_hash`` and ``window_id``."""
    wrong = 0
    for start, end, digest, window_id in zip(
        *(table[name].to_pylist() for name in ("start", "end", "window_hash", "window_id")), strict=True
    ):
        fresh = hashlib.sha256(sequence[start:end])
        wrong += fresh.digest() != digest or fresh.hexdigest()[:32] != window_id
    return CheckResult("window_hashes_right", passed=not wrong, figures={"wrong_hashes": wrong})
