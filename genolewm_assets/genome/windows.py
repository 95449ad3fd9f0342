"""Fixed-size windows over contigs, and the arithmetic that says how many there must be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.errors import IntervalError, WindowError
from genolewm_assets.genome.contigs import Contig
from genolewm_assets.genome.intervals import IntervalArray

#: Bases per DNA token: the encoders read non-overlapping 6-mers.
TOKEN_BP = 6


@dataclass(frozen=True, slots=True)
class WindowProfile:
    """How reference contigs are tiled.

    Parameters
    ----------
    name
        Name of the profile, a folder name.
    window_bp
        Window size in bases, a multiple of 6 (whole tokens).
    stride_bp
        Step between starts in bases; ``0 < stride_bp <= window_bp``.
    margin_bp
        Real bases kept free on either side of every window, from which indels draw.
    cover_tails
        Add one right-anchored last window per run.

    Raises
    ------
    WindowError
        If the numbers are impossible.
    """

    name: str
    window_bp: int = 12_288
    stride_bp: int = 8_192
    margin_bp: int = 256
    cover_tails: bool = False

    def __post_init__(self) -> None:
        _check_geometry(self.window_bp, self.stride_bp, self.margin_bp)
        if self.window_bp % TOKEN_BP:
            raise WindowError(
                f"window profile {self.name!r}",
                "window is not a whole number of tokens",
                expected=f"a multiple of {TOKEN_BP} bp",
                got=f"{self.window_bp} bp",
            )

    def tile(self, contig: Contig, runs: IntervalArray | None = None) -> IntervalArray:
        """Tile a contig with this profile; see :func:`tile_windows`."""
        return tile_windows(
            contig,
            window_bp=self.window_bp,
            stride_bp=self.stride_bp,
            margin_bp=self.margin_bp,
            runs=runs,
            cover_tails=self.cover_tails,
        )


def tile_windows(
    contig: Contig,
    *,
    window_bp: int,
    stride_bp: int,
    margin_bp: int = 0,
    runs: IntervalArray | None = None,
    cover_tails: bool = False,
) -> IntervalArray:
    """Tile a contig with fixed-size windows.

    Parameters
    ----------
    window_bp, stride_bp
        Window size and step between starts, in base pairs; ``0 < stride_bp <= window_bp``.
    margin_bp
        Bases of the run kept free on either side of every window (linear contigs).
    runs
        Maximal ACGT runs, disjoint and sorted; each is tiled by itself. None: the whole contig is one run.
    cover_tails
        Add one window per run that ends at the run's end less the margin, where the tiling stops short of it.

    Returns
    -------
    IntervalArray
        ``start``, ``end``: int64, shape (n_windows,), 0-based half-open, sorted by ``start``.
        On a circular contig ``end`` may exceed ``contig.length`` (the window wraps).

    Raises
    ------
    WindowError
        If the contig is shorter than one window, the numbers are impossible, or runs are given for a circular contig.
    IntervalError
        If a run leaves the contig.

    Notes
    -----
    A linear run drops the last partial window; a circular contig never does: its starts are 0, stride, ... below the
    length. A run too short for a window with its margins has none.
    """
    _check_geometry(window_bp, stride_bp, margin_bp)
    if contig.length < window_bp:
        raise WindowError(
            f"contig {contig.name!r}",
            "shorter than one window",
            expected=f"at least {window_bp} bp",
            got=f"{contig.length} bp",
        )
    if contig.circular:
        if runs is not None:
            raise WindowError(f"contig {contig.name!r}", "a circular contig is tiled whole, not by runs")
        start = np.arange(0, contig.length, stride_bp, dtype=np.int64)
        return IntervalArray(start, start + window_bp)
    if runs is None:
        runs = IntervalArray(np.array([0]), np.array([contig.length]))
    if len(runs) and int(runs.end.max()) > contig.length:
        raise IntervalError(
            f"contig {contig.name!r}", "a run leaves it", expected=f"up to {contig.length}", got=f"{runs.end.max()}"
        )
    start = _starts_in_runs(runs, window_bp, stride_bp, margin_bp, cover_tails=cover_tails)
    return IntervalArray(start, start + window_bp)


def expected_window_count(run_lengths: Iterable[int], profile: WindowProfile) -> int:
    """Return how many windows runs of these lengths hold, by arithmetic alone.

    Independent of :func:`tile_windows`, so that a check of one by the other means something.
    """
    return sum(_windows_in_run(length, profile) for length in run_lengths)


def expected_covered_bases(run_lengths: Iterable[int], profile: WindowProfile) -> int:
    """Return how many bases of runs of these lengths lie in at least one window, by arithmetic alone."""
    covered = 0
    for length in run_lengths:
        if n_windows := _windows_in_run(length, profile):
            regular = profile.window_bp + (n_windows - 1) * profile.stride_bp
            covered += length - 2 * profile.margin_bp if profile.cover_tails else regular
    return covered


def _starts_in_runs(
    runs: IntervalArray, window_bp: int, stride_bp: int, margin_bp: int, *, cover_tails: bool
) -> NDArray[np.int64]:
    first = runs.start + margin_bp
    slack = runs.end - margin_bp - window_bp - first
    first, slack = first[slack >= 0], slack[slack >= 0]
    per_run = slack // stride_bp + 1
    nth = np.arange(per_run.sum()) - np.repeat(np.cumsum(per_run) - per_run, per_run)
    start: NDArray[np.int64] = np.repeat(first, per_run) + nth * stride_bp
    return np.union1d(start, first + slack) if cover_tails else start


def _windows_in_run(length: int, profile: WindowProfile) -> int:
    room = length - 2 * profile.margin_bp - profile.window_bp
    if room < 0:
        return 0
    steps, rest = divmod(room, profile.stride_bp)
    return 1 + steps + (1 if profile.cover_tails and rest else 0)


def _check_geometry(window_bp: int, stride_bp: int, margin_bp: int) -> None:
    if not 0 < stride_bp <= window_bp or margin_bp < 0:
        raise WindowError(
            "windows",
            "impossible geometry",
            expected="0 < stride_bp <= window_bp and margin_bp >= 0",
            got=f"stride_bp={stride_bp}, window_bp={window_bp}, margin_bp={margin_bp}",
        )


#: Built-in profiles: 1.5x and 3x coverage.
PROFILES: Mapping[str, WindowProfile] = MappingProxyType(
    {"default": WindowProfile("default"), "dense": WindowProfile("dense", stride_bp=4_096)}
)
