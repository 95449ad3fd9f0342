"""Fixed-size windows over contigs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from genolewm_assets.errors import IntervalError, WindowError
from genolewm_assets.genome.contigs import Contig
from genolewm_assets.genome.intervals import IntervalArray

#: Bases per DNA token: the encoders read non-overlapping 6-mers.
TOKEN_BP = 6


@dataclass(frozen=True, slots=True)
class WindowProfile:
    """Parameters for tiling reference contigs.

    Parameters
    ----------
    name
        Name of the profile; folders are named after it.
    window_bp, stride_bp
        Window size in bases, a multiple of 6 (whole tokens), and step between window starts; ``0 < stride_bp <=
        window_bp``.
    margin_bp
        Bases of the run before and after every window; indels use them as flanks. At least 0.
    cover_tails
        Add a last window to a run whose end the regular windows do not reach; see :func:`tile_windows`.

    Raises
    ------
    WindowError
        If a number is outside its range, or ``window_bp`` is not a multiple of 6.
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
        Window size and step between window starts, in bases; ``0 < stride_bp <= window_bp``.
    margin_bp
        Bases of the run before and after every window; at least 0. Ignored on circular contigs.
    runs
        Maximal ACGT runs, disjoint and sorted; each run is tiled separately. None: the whole contig is one run.
    cover_tails
        If the regular windows of a run end before ``run end - margin_bp``, add one window that ends there.

    Returns
    -------
    IntervalArray
        ``start``, ``end``: int64, shape (n_windows,), 0-based half-open, sorted by ``start``.
        On a circular contig ``end`` may exceed ``contig.length`` (the window wraps).

    Raises
    ------
    WindowError
        If the contig is shorter than one window, a number is outside its range, or runs are given for a circular
        contig.
    IntervalError
        If a run reaches past the end of the contig.

    Notes
    -----
    On a run, the first window starts at ``run start + margin_bp``; a last partial window is dropped. A run shorter than
    ``window_bp + 2 * margin_bp`` has no window. On a circular contig windows start at 0, stride_bp, 2 * stride_bp, ...
    below the contig's length.
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
            raise WindowError(
                f"contig {contig.name!r}", "a circular contig cannot be tiled by runs", remedy="Omit runs"
            )
        start = np.arange(0, contig.length, stride_bp, dtype=np.int64)
        return IntervalArray(start, start + window_bp)
    if runs is None:
        runs = IntervalArray(np.array([0]), np.array([contig.length]))
    if len(runs) and int(runs.end.max()) > contig.length:
        raise IntervalError(
            f"contig {contig.name!r}",
            "a run reaches past the end of the contig",
            expected=f"an end of at most {contig.length}",
            got=f"{runs.end.max()}",
        )
    first = runs.start + margin_bp
    slack = runs.end - margin_bp - window_bp - first
    first, slack = first[slack >= 0], slack[slack >= 0]
    per_run = slack // stride_bp + 1
    nth = np.arange(per_run.sum()) - np.repeat(np.cumsum(per_run) - per_run, per_run)
    start = np.repeat(first, per_run) + nth * stride_bp
    start = np.union1d(start, first + slack) if cover_tails else start
    return IntervalArray(start, start + window_bp)


def _check_geometry(window_bp: int, stride_bp: int, margin_bp: int) -> None:
    if not 0 < stride_bp <= window_bp or margin_bp < 0:
        raise WindowError(
            "windows",
            "impossible window geometry",
            expected="0 < stride_bp <= window_bp and margin_bp >= 0",
            got=f"stride_bp={stride_bp}, window_bp={window_bp}, margin_bp={margin_bp}",
        )


#: Built-in profiles: ``default`` covers a base 1.5 times on average, ``dense`` 3 times.
PROFILES: Mapping[str, WindowProfile] = MappingProxyType(
    {"default": WindowProfile("default"), "dense": WindowProfile("dense", stride_bp=4_096)}
)
