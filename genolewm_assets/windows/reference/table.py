"""Build the window index of one contig. Not here: tiling (``genome.windows``), files (``sources.reference``)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from genolewm_assets.genome import TOKEN_BP, Bases, Contig, IntervalArray, WindowProfile, acgt_runs
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.windows.reference.schema import WINDOWS

#: Columns of the window table that are computed from the BED tracks of a catalogue.
TRACK_COLUMNS: tuple[str, ...] = ("segmental_duplication", "excluded_region", "repeat")

#: Windows read between two reports of progress.
_READ_AT_ONCE = 1_024


def build_window_table(
    contig: Contig,
    sequence: Bases,
    profile: WindowProfile,
    tracks: Mapping[str, IntervalArray],
    *,
    progress: Progress = NO_PROGRESS,
) -> pa.Table:
    """Tile a contig and describe every window.

    Parameters
    ----------
    contig, sequence
        A linear contig, and its bases, upper-case ASCII; read twice from start to end, one window or piece at a time.
    tracks
        Merged intervals on this contig by column name (a subset of :data:`TRACK_COLUMNS`); other columns are null.

    Returns
    -------
    pyarrow.Table
        Schema ``WINDOWS``, sorted by ``start``; coordinates 0-based half-open.
    """
    runs = acgt_runs(sequence)
    windows = profile.tile(contig, runs)
    n = len(windows)
    digests, gc_bases = _read_windows(sequence, windows, progress)
    columns: dict[str, object] = {
        "contig": [contig.name] * n,
        "start": windows.start,
        "end": windows.end,
        "window_hash": digests,
        "window_id": [digest.hex()[:32] for digest in digests],
        "gc": (gc_bases / np.maximum(windows.size, 1)).astype(np.float32),
        "frame": (windows.start % TOKEN_BP).astype(np.int8),
        "strand": ["+"] * n,
        "gap_distance_bp": gap_distance(windows, runs, margin_bp=profile.margin_bp),
    }
    for name in TRACK_COLUMNS:
        track = tracks.get(name)
        columns[name] = pa.nulls(n, pa.float32()) if track is None else _track_share(windows, track)
    return pa.table(columns, schema=WINDOWS.arrow)


def _read_windows(
    sequence: Bases, windows: IntervalArray, progress: Progress
) -> tuple[list[bytes], npt.NDArray[np.int64]]:
    """Return the SHA-256 of each window, and its number of G and C: int64, shape (n_windows,)."""
    digests: list[bytes] = []
    gc_bases = np.zeros(len(windows), dtype=np.int64)
    for index, (start, end) in enumerate(windows):
        span = sequence[start:end]
        digests.append(hashlib.sha256(span).digest())
        bases = np.frombuffer(span, dtype=np.uint8)
        gc_bases[index] = np.count_nonzero((bases == ord("G")) | (bases == ord("C")))
        if len(digests) % _READ_AT_ONCE == 0 or len(digests) == len(windows):
            progress.advance(len(digests), len(windows), "windows")
    return digests, gc_bases


def gap_distance(windows: IntervalArray, runs: IntervalArray, *, margin_bp: int) -> npt.NDArray[np.int64]:
    """Return the bases from each footprint ``[start, end + margin_bp)`` to the nearer end of its run: int64, (n,)."""
    run_of_window = np.searchsorted(runs.start, windows.start, side="right") - 1
    distance = np.minimum(
        windows.start - runs.start[run_of_window], runs.end[run_of_window] - (windows.end + margin_bp)
    )
    return np.asarray(distance, dtype=np.int64)


def coverage_counts(table: pa.Table, sequence: Bases, profile: WindowProfile) -> dict[str, int]:
    """Count windows, ACGT runs and bases of a contig; ``bases_in_no_window`` counts ACGT bases outside all windows."""
    runs = acgt_runs(sequence)
    covered = IntervalArray(table["start"].to_numpy(), table["end"].to_numpy()).merge()
    acgt = int((runs.end - runs.start).sum())
    in_windows = int((covered.end - covered.start).sum())
    shortest = profile.window_bp + 2 * profile.margin_bp
    return {
        "windows": table.num_rows,
        "acgt_bases": acgt,
        "acgt_runs": len(runs.start),
        "runs_too_short": int(np.count_nonzero(runs.end - runs.start < shortest)),
        "bases_in_windows": in_windows,
        "bases_in_no_window": acgt - in_windows,
    }


def _track_share(windows: IntervalArray, track: IntervalArray) -> npt.NDArray[np.float32]:
    """Return the share of each window that a track covers: float32, shape (n_windows,), 0 to 1."""
    share = track.overlap_bases(windows) / np.maximum(windows.end - windows.start, 1)
    return np.asarray(share, dtype=np.float32)
