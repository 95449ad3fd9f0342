"""The way from an instrument file to a profile: read, sized, put on a grid, labelled. The grid is an option."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import get_args

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import AbifError, ConfigurationError, InputError, PanelError, SizingError
from genolewm_assets.forensic import PreprocessedProfile
from genolewm_assets.forensic.abif import HidFile, parse_hid
from genolewm_assets.forensic.dataset.annotations import (
    Adjustment,
    AlleleAnnotation,
    Annotation,
    Mask,
    mask_of_bins,
    mask_of_peaks,
    mask_of_spans,
    place_alleles,
)
from genolewm_assets.forensic.dataset.scaling import (
    DataLoadingStrategy,
    ScalingStrategy,
    load_traces,
    nearest_scans,
)
from genolewm_assets.forensic.panels import LadderFit, Panel, fit_ladder
from genolewm_assets.forensic.signal import flatten
from genolewm_assets.forensic.sizing import SizeStandard, Sizing, SizingRules, size_run
from genolewm_assets.store.arrays import RowStamp
from genolewm_assets.store.files import JsonValue

#: Raised when profiles of the same files come out otherwise; it is part of every key.
PREPROCESSING_VERSION = 1
#: Scans of a row before the first fragment of the size standard.
_MARGIN_SCANS = 32


class Reason(StrEnum):
    """Why a file was left out."""

    NOT_AN_INSTRUMENT_FILE = "not_an_instrument_file"
    UNREADABLE = "unreadable"
    NOT_SIZED = "not_sized"
    LADDER_NOT_FITTED = "ladder_not_fitted"
    LADDER_INCOMPLETE = "ladder_incomplete"
    NO_LADDER = "no_ladder"
    OTHER_DYES = "other_dyes"
    TOO_LONG = "too_long"


class LeftOutError(InputError):
    """A file cannot be used; ``reason`` says why, and the message what is wrong with it."""

    reason: Reason

    def __reduce__(self) -> tuple[object, ...]:
        return (*super().__reduce__(), {"reason": self.reason})

    @classmethod
    def of(cls, reason: Reason, err: InputError) -> LeftOutError:
        """Return an error about a file as the reason to leave the file out."""
        found = cls(err.where, err.problem, expected=err.expected, got=err.got, remedy=err.remedy)
        found.reason = reason
        return found


@contextmanager
def leaving_out(reason: Reason, kind: type[InputError]) -> Iterator[None]:
    """Raise LeftOutError in place of an error of some kind."""
    try:
        yield
    except kind as err:
        raise LeftOutError.of(reason, err) from err


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """A run on a grid."""

    channels: Sequence[int]
    #: Relative fluorescence units, shape (n_channels, n_points).
    data: npt.NDArray[np.int16]
    #: Size of each point in base pairs, ascending.
    scaler: npt.NDArray[np.float32]
    #: Scan of the first point.
    first_scan: int


@dataclass(frozen=True, kw_only=True)
class Grid(ABC):
    """Which scans of which dyes are the points of a profile, and how sizes come about."""

    #: Size standard of every run; None: the one that each file names.
    standard: SizeStandard | None
    sizing: SizingRules
    #: Decimals of the sizes in the panel that is stored; None: all.
    decimals: int | None = None

    @abstractmethod
    def place(self, run: HidFile, sizing: Sizing) -> Points:
        """Return the points of a run; raises AbifError, PanelError or LeftOutError."""


@dataclass(frozen=True, slots=True)
class ProfileRules:
    """How profiles on a grid of base pairs are made, besides kit and grid; parameters as in :class:`HIDDataset`."""

    data_loading_strategy: DataLoadingStrategy = "superior"
    adjustment_of_annotations: Adjustment | None = None
    include_size_standard: bool = False

    def __post_init__(self) -> None:
        for name, known in (
            ("data_loading_strategy", get_args(DataLoadingStrategy)),
            ("adjustment_of_annotations", (None, *get_args(Adjustment))),
        ):
            if (value := getattr(self, name)) not in known:
                raise ConfigurationError(name, "is unknown", expected=f"one of {known}", got=repr(value))

    def cache_signature(self) -> dict[str, JsonValue]:
        """Return the attributes and the version of this code."""
        return {"preprocessing_version": PREPROCESSING_VERSION, **asdict(self)}


@dataclass(frozen=True)
class BasePairGrid(Grid):
    """The same base pairs for every run: the scan nearest to each, in the dyes of the kit's loci."""

    scaling: ScalingStrategy
    rules: ProfileRules
    standard: SizeStandard | None = field(default=None, kw_only=True)
    sizing: SizingRules = field(default_factory=SizingRules, kw_only=True)

    def place(self, run: HidFile, sizing: Sizing) -> Points:
        """Return the points of a run, as :class:`Grid`."""
        scans = nearest_scans(sizing.scaler, self.scaling.grid_bp)
        channels = self.scaling.channels
        if self.rules.include_size_standard:
            channels = (*channels, run.run.size_standard_channel)
        data = load_traces(run, channels, self.rules.data_loading_strategy)[:, scans]
        return Points(channels, data, sizing.scaler[scans], int(scans[0]))


@dataclass(frozen=True)
class ScanGrid(Grid):
    """Every scan of every dye, as the instrument has it, from just before the first fragment on."""

    n_scanpoints: int
    decimals: int | None = field(default=4, kw_only=True)

    def place(self, run: HidFile, sizing: Sizing) -> Points:
        """Return the points of a run; raises LeftOutError if the row would end before the last fragment."""
        first = max(0, int(np.floor(sizing.scans[0])) - _MARGIN_SCANS)
        needed = int(np.ceil(sizing.scans[-1])) + 1 - first
        if needed > self.n_scanpoints:
            most = f"at most {self.n_scanpoints:,} scans from the first fragment to the last (forensic.n_scanpoints)"
            problem = InputError(run.where, "is too long", expected=most, got=f"{needed:,}")
            raise LeftOutError.of(Reason.TOO_LONG, problem)
        end = first + self.n_scanpoints
        scaler = sizing.size_at(np.arange(first, end)).astype(np.float32)
        return Points(range(1, len(run.dyes) + 1), cut_traces(run, first, end), scaler, first)


def cut_traces(run: HidFile, start: int, end: int) -> npt.NDArray[np.int16]:
    """Return the analysed traces of some scans, or raw ones less their baseline: int16, (n_dyes, end - start), RFU."""
    traces = np.zeros((len(run.dyes), end - start), np.int16)
    for row, dye in enumerate(run.dyes):
        own = np.rint(flatten(dye.raw, dye.analysed)[start:end]).astype(np.int16)
        traces[row, : len(own)] = own
    return traces


@dataclass(frozen=True, slots=True, eq=False)
class RunPanel:
    """The panel that alleles of a run are named by, as JSON values too, and the files that it was made from."""

    #: File of the ladder that moved it; None: the panel is the kit's.
    ladder: str | None
    panel: Panel
    as_json: JsonValue
    stamps: Mapping[str, RowStamp]


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """A ladder: its file, injection, sizes, and the kit's panel moved by it."""

    file: str
    run: HidFile
    sizing: Sizing
    fit: LadderFit
    moved: RunPanel


def read_run(data: bytes, where: str) -> HidFile:
    """Return the injection in a file's bytes; raise LeftOutError if it is damaged, truncated or no instrument file."""
    with leaving_out(Reason.UNREADABLE, AbifError):
        return parse_hid(data, where)


def size_on(grid: Grid, run: HidFile) -> Sizing:
    """Return the sizes of an injection; raise LeftOutError if its size standard is missing or does not fit."""
    with leaving_out(Reason.NOT_SIZED, SizingError):
        return size_run(run, standard=grid.standard, rules=grid.sizing)


def fit_run_ladder(file: str, run: HidFile, panel: Panel, grid: Grid, stamps: Mapping[str, RowStamp]) -> Ladder:
    """Return a ladder, which may lack alleles; raise LeftOutError if it is not sized, or a locus lacks most of them."""
    sizing = size_on(grid, run)
    with leaving_out(Reason.LADDER_NOT_FITTED, PanelError):
        fit = fit_ladder(run, sizing, panel)
    return Ladder(file, run, sizing, fit, RunPanel(file, fit.panel, fit.panel.as_json(grid.decimals), stamps))


@dataclass(frozen=True, slots=True, eq=False)
class MadeProfile:
    """A profile without alleles and facts, what those are made from, and how many annotated alleles have no bin."""

    image: PreprocessedProfile
    sizing: Sizing
    points: Points
    unplaced: int


def make_profile(
    name: str,
    run: HidFile,
    panel: RunPanel,
    annotation: Annotation | None,
    grid: Grid,
    *,
    stamps: Mapping[str, RowStamp],
    adjustment: Adjustment | None = None,
) -> MadeProfile:
    """Return the profile of an injection on a grid.

    LeftOutError is raised if it is not sized or does not fit on the grid; InputError if a span of the annotation lies
    outside of it. ``stamps`` are those of the injection's file and of the tables with its annotation.
    """
    sizing = size_on(grid, run)
    with leaving_out(Reason.OTHER_DYES, PanelError), leaving_out(Reason.UNREADABLE, AbifError):
        points = grid.place(run, sizing)
    mask: Mask | None = None
    unplaced = 0
    if isinstance(annotation, AlleleAnnotation):
        places, unplaced = place_alleles(annotation, panel.panel, points.scaler, points.channels)
        mask = mask_of_bins(places, points.data.shape)
        if adjustment is not None:
            mask = mask_of_peaks(places, points.data, adjustment)
    elif annotation is not None:
        mask = mask_of_spans(annotation, points.data.shape, points.channels, name)
    image = PreprocessedProfile(
        path=name,
        data=points.data,
        scaler=points.scaler,
        stamps={**panel.stamps, **stamps},
        annotation=mask,
        panel=panel.as_json,
    )
    return MadeProfile(image, sizing, points, unplaced)
