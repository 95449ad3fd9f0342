"""Pull-up: peaks that another dye's peak at the same scan makes, because the dyes' spectra overlap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from genolewm_assets.forensic.signal.peaks import Peaks


@dataclass(frozen=True, slots=True)
class PullUpRules:
    """When a peak counts as pull-up.

    Attributes
    ----------
    max_ratio
        Largest height relative to the peak of the other dye.
    max_ratio_off_scale
        The same if that peak saturates the detector, whose true height is then unknown.
    max_scans
        Largest distance of the tops.
    """

    max_ratio: float = 0.1
    max_ratio_off_scale: float = 0.3
    max_scans: float = 3.0


def find_pull_up(
    peaks: Mapping[int, Peaks], off_scale: npt.NDArray[np.int64], rules: PullUpRules
) -> dict[int, npt.NDArray[np.bool_]]:
    """Tell which peaks of each channel may be pull-up of a peak of another channel.

    Parameters
    ----------
    peaks
        Peaks by channel.
    off_scale
        Scans at which the detector was saturated, ascending.

    Returns
    -------
    dict
        By channel: bool, shape (n_peaks,).
    """
    flags = {}
    for channel, own in peaks.items():
        flag = np.zeros(len(own), bool)
        for other_channel, other in peaks.items():
            if other_channel != channel and len(other):
                flag |= _is_below(own, other, other.touch(off_scale), rules)
        flags[channel] = flag
    return flags


def _is_below(own: Peaks, other: Peaks, saturated: npt.NDArray[np.bool_], rules: PullUpRules) -> npt.NDArray[np.bool_]:
    """Tell which peaks have a much higher peak of the other dye beside them, of the two nearest."""
    right = np.searchsorted(other.scan, own.scan)
    flag = np.zeros(len(own), bool)
    for row in (np.maximum(right - 1, 0), np.minimum(right, len(other) - 1)):
        ratio = np.where(saturated[row], rules.max_ratio_off_scale, rules.max_ratio)
        flag |= (np.abs(other.scan[row] - own.scan) <= rules.max_scans) & (own.height <= ratio * other.height[row])
    return flag
