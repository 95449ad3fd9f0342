"""A kit with its grid of base pairs, the scans nearest to it, and traces as a profile shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import AbifError, ConfigurationError
from genolewm_assets.forensic.abif import HidFile
from genolewm_assets.forensic.panels import Panel, read_panel
from genolewm_assets.store.files import JsonValue

DataLoadingStrategy = Literal["raw", "analyzed", "superior"]
#: Of a hundred scans round each and the scan itself, the baseline is the value that a fifth lies below.
_HALF_WINDOW, _BASELINE_SHARE = 50, 0.2
_MARGIN_BP = 10.0
_MAX_RESOLUTION = 1 << 16


@dataclass(frozen=True)
class ScalingStrategy:
    """A kit, known from its panel files alone, and the grid that its profiles are put on.

    Attributes
    ----------
    panel_paths
        Panel files of the kit, as :func:`~genolewm_assets.forensic.panels.files.read_panel` takes them.
    panel_name
        The panel, if the files have several; None: the only one.
    start_bp, end_bp
        First and last point of the grid in base pairs, both included; None: 10 bp outside of the panel's loci.
    scanpoint_resolution
        Number of points of the grid, equally spaced.

    Raises
    ------
    ConfigurationError
        If no panel file is named, the resolution is not 2 to 65,536, or the grid is empty.

    Notes
    -----
    DNANet puts PowerPlex Fusion 6C on 65 to 475 bp and GlobalFiler on 60 to 480 bp, both on 4,096 points.
    """

    panel_paths: tuple[Path, ...]
    panel_name: str | None = None
    start_bp: float | None = None
    end_bp: float | None = None
    scanpoint_resolution: int = 4_096

    def __post_init__(self) -> None:
        if not self.panel_paths or not 2 <= self.scanpoint_resolution <= _MAX_RESOLUTION:
            problem = "has no panel files, or an unusable resolution"
            expected = f"at least one file and 2 to {_MAX_RESOLUTION:,} points"
            got = f"{len(self.panel_paths)} files and {self.scanpoint_resolution:,} points"
            raise ConfigurationError("scaling strategy", problem, expected=expected, got=got)
        if self.start_bp is not None and self.end_bp is not None and not self.start_bp < self.end_bp:
            got = f"{self.start_bp:g} to {self.end_bp:g}"
            raise ConfigurationError("scaling strategy", "the grid is empty", expected="start_bp below end_bp", got=got)

    @cached_property
    def panel(self) -> Panel:
        """The kit's panel, read when it is first needed; errors are those of ``read_panel``."""
        return read_panel(*self.panel_paths, panel_name=self.panel_name)

    @cached_property
    def channels(self) -> tuple[int, ...]:
        """Channels that have loci, ascending; the rows of a profile. Raises as :attr:`panel`."""
        return tuple(sorted({locus.channel for locus in self.panel.loci}))

    @cached_property
    def grid_bp(self) -> npt.NDArray[np.float64]:
        """Points of the grid in base pairs, float64, shape (scanpoint_resolution,), ascending. Raises as `panel`."""
        low, high = self.start_bp, self.end_bp
        low = min(locus.start_bp for locus in self.panel.loci) - _MARGIN_BP if low is None else low
        high = max(locus.end_bp for locus in self.panel.loci) + _MARGIN_BP if high is None else high
        return np.linspace(low, high, self.scanpoint_resolution)

    def cache_signature(self) -> dict[str, JsonValue]:
        """Return every parameter that profiles depend on; the content of the panel files is in the fingerprint."""
        return {
            "panel_files": [Path(path).name for path in self.panel_paths],
            "panel_name": self.panel_name,
            "start_bp": self.start_bp,
            "end_bp": self.end_bp,
            "scanpoint_resolution": self.scanpoint_resolution,
        }


def nearest_scans(sizes_bp: npt.ArrayLike, grid_bp: npt.ArrayLike) -> npt.NDArray[np.intp]:
    """Return for each point of a grid the earliest scan whose size is nearest; ``sizes_bp`` ascend."""
    sizes, grid = np.asarray(sizes_bp, np.float64), np.asarray(grid_bp, np.float64)
    right = np.clip(np.searchsorted(sizes, grid), 1, len(sizes) - 1)
    left = right - 1
    return np.where(grid - sizes[left] <= sizes[right] - grid, left, right)


def load_traces(run: HidFile, channels: Sequence[int], strategy: DataLoadingStrategy) -> npt.NDArray[np.int16]:
    """Return the traces of some dyes in relative fluorescence units: int16, shape (n_channels, n_scans).

    ``raw``: as collected; ``analyzed``: smoothed and without baseline, by the instrument's software; ``superior``: as
    collected, without the running 20th percentile of 101 scans. Values outside of int16 become its limits. Raises
    PanelError if the run lacks a channel, AbifError if it lacks analysed traces that are wanted.
    """
    traces = np.empty((len(channels), run.n_scans), np.int16)
    for row, channel in enumerate(channels):
        dye = run.dye(channel, f"{run.where} panel")
        if strategy == "analyzed":
            if dye.analysed is None:
                raise AbifError(
                    f"{run.where} channel {channel}", "has no analysed trace", remedy="Use data_loading_strategy='raw'"
                )
            traces[row] = dye.analysed
        else:
            traces[row] = dye.raw if strategy == "raw" else _without_baseline(dye.raw)
    return traces


def _without_baseline(raw: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
    from genolewm_assets.forensic.dataset.baseline_kernels import sliding_rank

    values = raw.astype(np.int32)
    baseline = np.empty_like(values)
    sliding_rank(values, _HALF_WINDOW, int((2 * _HALF_WINDOW + 1) * _BASELINE_SHARE), baseline)
    limits = np.iinfo(np.int16)
    flat: npt.NDArray[np.int16] = np.clip(values - baseline, limits.min, limits.max).astype(np.int16)
    return flat
