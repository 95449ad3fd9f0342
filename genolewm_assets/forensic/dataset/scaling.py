"""From scans of a run to a grid of base pairs: the same grid for every profile of a cache."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.forensic.panels import Panel, read_panel

if TYPE_CHECKING:
    from genolewm_assets.store.files import JsonValue

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
            raise ConfigurationError(
                "scaling strategy",
                "has no panel files, or an unusable resolution",
                expected=f"at least one file and 2 to {_MAX_RESOLUTION:,} points",
                got=f"{len(self.panel_paths)} files and {self.scanpoint_resolution:,} points",
            )
        if self.start_bp is not None and self.end_bp is not None and not self.start_bp < self.end_bp:
            raise ConfigurationError(
                "scaling strategy",
                "the grid is empty",
                expected="start_bp below end_bp",
                got=f"{self.start_bp:g} to {self.end_bp:g}",
            )

    @cached_property
    def panel(self) -> Panel:
        """The kit's panel, read when it is first needed; errors are those of ``read_panel``."""
        return read_panel(*self.panel_paths, panel_name=self.panel_name)

    @cached_property
    def channels(self) -> tuple[int, ...]:
        """Channels that have loci, ascending: the rows of a profile. Raises as :attr:`panel`."""
        return tuple(sorted({locus.channel for locus in self.panel.loci}))

    @cached_property
    def grid_bp(self) -> npt.NDArray[np.float64]:
        """Points of the grid in base pairs: float64, shape (scanpoint_resolution,), ascending. Raises as `panel`."""
        low, high = self.start_bp, self.end_bp
        low = min(locus.start_bp for locus in self.panel.loci) - _MARGIN_BP if low is None else low
        high = max(locus.end_bp for locus in self.panel.loci) + _MARGIN_BP if high is None else high
        return np.linspace(low, high, self.scanpoint_resolution)

    def row_of(self, channel: int) -> int:
        """Return the row of a channel's dye in the arrays of a profile."""
        return self.channels.index(channel)

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
    """Return for each point of a grid the scan whose size is nearest; of two as near, the earlier one.

    Parameters
    ----------
    sizes_bp
        Size of each scan, shape (n_scans,), ascending.
    grid_bp
        Points of the grid, shape (n_points,).

    Returns
    -------
    numpy.ndarray
        Scan numbers: shape (n_points,), ascending if the grid is.
    """
    sizes, grid = np.asarray(sizes_bp, np.float64), np.asarray(grid_bp, np.float64)
    right = np.clip(np.searchsorted(sizes, grid), 1, len(sizes) - 1)
    left = right - 1
    return np.where(grid - sizes[left] <= sizes[right] - grid, left, right)
