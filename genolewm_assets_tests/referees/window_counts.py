"""Number of windows and of covered bases by arithmetic, independently of ``tile_windows``."""

from __future__ import annotations

from collections.abc import Iterable

from genolewm_assets.genome import WindowProfile


def expected_window_count(run_lengths: Iterable[int], profile: WindowProfile) -> int:
    return sum(windows_in_run(length, profile) for length in run_lengths)


def expected_covered_bases(run_lengths: Iterable[int], profile: WindowProfile) -> int:
    """Return the number of bases in at least one window, for runs of these lengths, in bases."""
    covered = 0
    for length in run_lengths:
        if n_windows := windows_in_run(length, profile):
            regular = profile.window_bp + (n_windows - 1) * profile.stride_bp
            covered += length - 2 * profile.margin_bp if profile.cover_tails else regular
    return covered


def windows_in_run(length: int, profile: WindowProfile) -> int:
    room = length - 2 * profile.margin_bp - profile.window_bp
    if room < 0:
        return 0
    steps, rest = divmod(room, profile.stride_bp)
    return 1 + steps + (1 if profile.cover_tails and rest else 0)
