"""Choose records of the corpus and tile them."""

from __future__ import annotations

from collections.abc import Sequence

from genolewm_assets.genome import TOKEN_BP, draw_bits
from genolewm_assets.windows.corpus.placement import Span
from genolewm_assets.windows.corpus.windows import SHORTEST_BP, CorpusParams


def is_in_slice(record_id: str, *, fraction: float, seed: int) -> bool:
    """Return whether a record belongs to the slice, by its id and the seed; a larger slice contains a smaller one."""
    return draw_bits("slice", seed, record_id) < int(fraction * 2**64)


def tile_record(runs: Sequence[Span], record_id: str, params: CorpusParams) -> list[Span]:
    """Tile the ACGT runs of a record; runs and windows are 0-based half-open, ascending.

    Starts in a run are margin + phase + n x stride. The phase is uniform over 0 to stride - 1, or to the largest value
    that leaves room for one window. A run too short for a window gives none, or a short one (``params.short_windows``).
    """
    margin, stride = params.profile.margin_bp, params.profile.stride_bp
    bits = draw_bits("phase", params.seed, record_id)
    windows: list[Span] = []
    for run_start, run_end in runs:
        window = window_size(run_end - run_start, params)
        slack = run_end - run_start - 2 * margin - window
        if window and slack >= 0:
            first = run_start + margin + bits % (min(slack, stride - 1) + 1)
            windows += [(at, at + window) for at in range(first, run_end - margin - window + 1, stride)]
    return windows


def window_size(run_bp: int, params: CorpusParams) -> int:
    """Return the size of the windows of a run, in bases; 0 if it has no window."""
    room = run_bp - 2 * params.profile.margin_bp
    if room >= params.profile.window_bp:
        return params.profile.window_bp
    return max(0, room // TOKEN_BP * TOKEN_BP) if params.short_windows and run_bp >= SHORTEST_BP else 0
