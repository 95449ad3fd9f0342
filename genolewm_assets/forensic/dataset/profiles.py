"""From an instrument file and what was said of it to a profile of the cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from genolewm_assets.errors import AbifError, PanelError, SizingError
from genolewm_assets.forensic import PreprocessedProfile
from genolewm_assets.forensic.abif import HidFile, parse_hid
from genolewm_assets.forensic.dataset.annotations import AlleleAnnotation
from genolewm_assets.forensic.dataset.masks import (
    Adjustment,
    check_adjustment,
    mask_of_bins,
    mask_of_peaks,
    mask_of_spans,
    place_alleles,
)
from genolewm_assets.forensic.dataset.panel_json import panel_as_json
from genolewm_assets.forensic.dataset.scaling import ScalingStrategy, nearest_scans
from genolewm_assets.forensic.dataset.signals import DataLoadingStrategy, check_data_loading_strategy, load_traces
from genolewm_assets.forensic.dataset.strategies import DatasetEntry
from genolewm_assets.forensic.panels import Panel, fit_ladder
from genolewm_assets.forensic.sizing import Sizing, size_run
from genolewm_assets.store.arrays import RowStamp
from genolewm_assets.store.files import JsonValue

#: Raised when profiles of the same files come out otherwise; it is part of every key.
PREPROCESSING_VERSION = 1
#: What makes a file unusable as a profile or ladder, which costs its row and not the data set.
UNUSABLE = (AbifError, SizingError, PanelError)


@dataclass(frozen=True, slots=True)
class ProfileRules:
    """How profiles are made.

    Attributes
    ----------
    data_loading_strategy
        ``raw``, ``analyzed`` or ``superior``; see :func:`load_traces`.
    adjustment_of_annotations
        None: the bins of called alleles are labelled; ``top`` or ``complete``: the peaks in them.
    include_size_standard
        Whether the trace of the size standard is the last row.

    Raises
    ------
    ConfigurationError
        If there is no such strategy or adjustment.
    """

    data_loading_strategy: DataLoadingStrategy = "superior"
    adjustment_of_annotations: Adjustment | None = None
    include_size_standard: bool = False

    def __post_init__(self) -> None:
        check_data_loading_strategy(self.data_loading_strategy)
        check_adjustment(self.adjustment_of_annotations)

    def cache_signature(self) -> dict[str, JsonValue]:
        """Return the attributes and the version of this code."""
        return {"preprocessing_version": PREPROCESSING_VERSION, **asdict(self)}


@dataclass(frozen=True, slots=True)
class LadderPanel:
    """A panel moved by a ladder.

    Attributes
    ----------
    name
        Root-relative name of the ladder's file; None: no ladder, the panel is the kit's.
    panel
        The panel.
    as_json
        The panel as JSON values.
    stamps
        Stamps of the files that it was made from.
    """

    name: str | None
    panel: Panel
    as_json: JsonValue
    stamps: Mapping[str, RowStamp]


def read_ladder(data: bytes, name: str, scaling: ScalingStrategy, stamps: Mapping[str, RowStamp]) -> LadderPanel:
    """Return the kit's panel moved by the ladder in a file's bytes.

    Raises
    ------
    AbifError, SizingError, PanelError
        If the file is no run, its size standard is not found, or its peaks are not the kit's ladder.
    """
    run = parse_hid(data, name)
    panel = fit_ladder(run, size_run(run), scaling.panel).panel
    return LadderPanel(name, panel, panel_as_json(panel), stamps)


def make_profile(
    data: bytes,
    stamp: RowStamp,
    entry: DatasetEntry,
    ladder: LadderPanel,
    *,
    scaling: ScalingStrategy,
    rules: ProfileRules,
) -> PreprocessedProfile:
    """Return the profile of a sample.

    Parameters
    ----------
    data, stamp
        Bytes of the instrument file, and their stamp.
    entry
        The sample.
    ladder
        The panel for its run.

    Raises
    ------
    AbifError, SizingError, PanelError
        If the file is no run, its size standard is not found, or it lacks a dye of the kit.
    InputError
        If a span of the annotation lies outside of the profile.
    """
    name, annotation = entry.name, entry.annotation
    run = parse_hid(data, name)
    sizing = size_run(run)
    scans = nearest_scans(sizing.scaler, scaling.grid_bp)
    channels = scaling.channels
    if rules.include_size_standard:
        channels = (*channels, run.run.size_standard_channel or len(run.dyes))
    values = load_traces(run, channels, rules.data_loading_strategy)[:, scans]
    scaler = sizing.scaler[scans]
    mask, unplaced = None, 0
    if isinstance(annotation, AlleleAnnotation):
        places, unplaced = place_alleles(annotation, ladder.panel, scaler, channels)
        adjustment = rules.adjustment_of_annotations
        mask = mask_of_bins(places, values.shape) if adjustment is None else mask_of_peaks(places, values, adjustment)
    elif annotation is not None:
        mask = mask_of_spans(annotation, values.shape, channels, name)
    return PreprocessedProfile(
        path=name,
        data=values,
        scaler=scaler,
        stamps={**ladder.stamps, **entry.stamps, name: stamp},
        annotation=mask,
        panel=ladder.as_json,
        alleles=annotation.as_json() if isinstance(annotation, AlleleAnnotation) else None,
        meta=_facts(run, sizing, ladder, unplaced),
    )


def _facts(run: HidFile, sizing: Sizing, ladder: LadderPanel, unplaced: int) -> dict[str, JsonValue]:
    """Return facts about a profile that name no allele."""
    return {
        "ladder": ladder.name,
        "instrument": run.run.model,
        "injection": run.run.injection,
        "size_standard": sizing.standard.name,
        "sized_from_bp": float(sizing.sizes_bp[0]),
        "sized_to_bp": float(sizing.sizes_bp[-1]),
        "max_residual_bp": round(float(np.abs(sizing.residuals_bp).max()), 4),
        "off_scale_scans": len(run.off_scale),
        "unplaced_alleles": unplaced,
    }
