"""Traces of a run as a profile shows them: as collected, as analysed by the instrument, or without baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import AbifError, ConfigurationError, PanelError
from genolewm_assets.forensic.abif import HidFile

DataLoadingStrategy = Literal["raw", "analyzed", "superior"]
DATA_LOADING_STRATEGIES: tuple[DataLoadingStrategy, ...] = get_args(DataLoadingStrategy)
#: Of a hundred scans round each and the scan itself, the baseline is the value that a fifth lies below.
_HALF_WINDOW, _BASELINE_SHARE = 50, 0.2


def check_data_loading_strategy(name: str) -> None:
    """Raise :class:`ConfigurationError` unless there is a strategy of this name."""
    if name not in DATA_LOADING_STRATEGIES:
        raise ConfigurationError(
            "data_loading_strategy", "is unknown", expected=f"one of {DATA_LOADING_STRATEGIES}", got=repr(name)
        )


def load_traces(run: HidFile, channels: Sequence[int], strategy: DataLoadingStrategy) -> npt.NDArray[np.int16]:
    """Return the traces of some dyes.

    Parameters
    ----------
    run
        The injection.
    channels
        Channels of the dyes, in the order of the rows.
    strategy
        ``raw``: as collected; ``analyzed``: smoothed and without baseline, by the instrument's software; ``superior``:
        as collected, without the running 20th percentile of 101 scans.

    Returns
    -------
    numpy.ndarray
        Relative fluorescence units: int16, shape (n_channels, n_scans). Values outside of int16 become its limits.

    Raises
    ------
    PanelError
        If the run lacks a channel.
    AbifError
        If the instrument's analysed traces are wanted and missing.
    """
    traces = np.empty((len(channels), run.n_scans), np.int16)
    for row, channel in enumerate(channels):
        if not 1 <= channel <= len(run.dyes):
            raise PanelError(
                run.where,
                "the run lacks a channel of the panel",
                expected=f"1 to {len(run.dyes)}",
                got=str(channel),
                remedy="Check that the panel is that of the kit",
            )
        dye = run.dyes[channel - 1]
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
