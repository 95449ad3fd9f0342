"""Build the window index of one contig. Not here: tiling (``genome.windows``), files (``sources.reference``)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from genolewm_assets.errors import CorruptResourceError
from genolewm_assets.genome import TOKEN_BP, Bases, Contig, IntervalArray, WindowProfile, acgt_runs
from genolewm_assets.progress import NO_PROGRESS, Progress
from genolewm_assets.windows.reference.schema import FACTS, WINDOWS

#: Columns of the window table that are computed from the BED tracks of a catalogue.
TRACK_COLUMNS: tuple[str, ...] = ("segmental_duplication", "excluded_region", "repeat")

#: Windows read between two reports of progress, and given their bases at a time.
_READ_AT_ONCE, _WRITTEN_AT_ONCE = 1_024, 512


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
        The columns ``FACTS`` of ``WINDOWS``, sorted by ``start``; coordinates 0-based half-open. :func:`with_bases`
        adds the others.
    """
    runs = acgt_runs(sequence)
    windows = profile.tile(contig, runs)
    n = len(windows)
    digests, gc_bases = _read_windows(sequence, windows, progress)
    run = np.searchsorted(runs.start, windows.start, side="right") - 1
    # From each footprint ``[start, end + margin_bp)`` to the nearer end of its run.
    gaps = np.minimum(windows.start - runs.start[run], runs.end[run] - (windows.end + profile.margin_bp))
    columns: dict[str, object] = {
        "contig": [contig.name] * n,
        "start": windows.start,
        "end": windows.end,
        "window_hash": digests,
        "window_id": [digest.hex()[:32] for digest in digests],
        "gc": (gc_bases / np.maximum(windows.size, 1)).astype(np.float32),
        "frame": (windows.start % TOKEN_BP).astype(np.int8),
        "strand": ["+"] * n,
        "gap_distance_bp": gaps,
    }
    for name in TRACK_COLUMNS:
        track = tracks.get(name)
        share = None if track is None else track.overlap_bases(windows) / np.maximum(windows.size, 1)
        columns[name] = pa.nulls(n, pa.float32()) if share is None else share.astype(np.float32)
    return pa.table(columns, schema=pa.schema([WINDOWS.arrow.field(name) for name in FACTS]))


def with_bases(windows: pa.Table, sequence: Bases, *, margin_bp: int) -> Iterator[pa.Table]:
    """Yield rows of :func:`build_window_table`, 512 at a time, with the bases of the windows and their flanks.

    Raises
    ------
    CorruptResourceError
        If a window with its flanks extends beyond its contig.
    """
    for first in range(0, windows.num_rows, _WRITTEN_AT_ONCE):
        rows = windows.slice(first, _WRITTEN_AT_ONCE)
        spans = list(zip(rows["start"].to_pylist(), rows["end"].to_pylist(), strict=True))
        if spans[0][0] < margin_bp or spans[-1][1] + margin_bp > len(sequence):
            raise CorruptResourceError(
                f"windows/index[{rows['contig'][0]}]",
                "a window with its flanks extends beyond its contig",
                expected=f"windows in [{margin_bp}, {len(sequence) - margin_bp})",
                got=f"[{spans[0][0]}, {spans[-1][1]})",
                remedy="Rebuild the window index",
            )
        # Each window is read once with its flanks: a contig that is read on demand keeps few of its pieces.
        whole = [sequence[start - margin_bp : end + margin_bp].decode("ascii") for start, end in spans]
        texts = {
            "sequence": [text[margin_bp : len(text) - margin_bp] for text in whole],
            "left_flank": [text[:margin_bp] for text in whole],
            "right_flank": [text[len(text) - margin_bp :] for text in whole],
        }
        columns = [texts[name] if name in texts else rows[name] for name in WINDOWS.columns]
        yield pa.table(columns, names=WINDOWS.columns).cast(WINDOWS.arrow)


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


def coverage_counts(table: pa.Table, sequence: Bases, profile: WindowProfile) -> dict[str, int]:
    """Count windows, ACGT runs and bases of a contig; ``bases_in_no_window`` counts ACGT bases outside all windows."""
    runs = acgt_runs(sequence)
    covered = IntervalArray(table["start"].to_numpy(), table["end"].to_numpy()).merge()
    acgt, in_windows = int(runs.size.sum()), int(covered.size.sum())
    shortest = profile.window_bp + 2 * profile.margin_bp
    return {
        "windows": table.num_rows,
        "acgt_bases": acgt,
        "acgt_runs": len(runs.start),
        "runs_too_short": int(np.count_nonzero(runs.size < shortest)),
        "bases_in_windows": in_windows,
        "bases_in_no_window": acgt - in_windows,
    }
