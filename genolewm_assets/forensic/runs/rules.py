"""What a run folder is built with: roles of files by their names, thresholds, and the length of a row."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath

from genolewm_assets.errors import ConfigurationError
from genolewm_assets.forensic import CallingRules, HidFile, SizeStandard, SizingRules
from genolewm_assets.forensic.dataset import INSTRUMENT_SUFFIXES, ScanGrid, fits
from genolewm_assets.store.files import JsonValue


class Role(StrEnum):
    """What a file of a run folder is."""

    LADDER = "ladder"
    NEGATIVE = "negative"
    POSITIVE = "positive"
    SAMPLE = "sample"
    ANNOTATION = "annotation"
    OTHER = "other"


#: Roles that an instrument or a name states, by their own names; the first one counts.
_NAMED = (Role.LADDER, Role.NEGATIVE, Role.POSITIVE)


class Fate(StrEnum):
    """What became of a file: a row, the ladder of rows, annotations of rows, or nothing."""

    STORED = "stored"
    USED = "used"
    LEFT_OUT = "left_out"


@dataclass(frozen=True, slots=True)
class RunFile:
    """One file of a run folder."""

    #: Path relative to the folder, separated by ``/``.
    name: str
    path: Path
    #: SHA-256 of its content when the build was planned, hex.
    sha256: str


@dataclass(frozen=True, slots=True)
class RunRules:
    """Parameters that the profiles of a run depend on, besides the files.

    Raises
    ------
    ConfigurationError
        If a number is out of its range.
    """

    #: Scans of a row: from just before the first fragment of the size standard on; a run that takes longer to the last
    #: fragment is left out.
    n_scanpoints: int = 5_120
    #: Largest distance of a fragment from the smooth curve through all.
    max_residual_bp: float = 0.5
    #: Lowest peak that is listed.
    detection_rfu: float = 50.0
    #: Lowest peak that may be an allele.
    analytical_rfu: float = 175.0
    #: Fragments of the size standard in base pairs; empty: those that the files state or name.
    size_standard_bp: tuple[float, ...] = ()
    #: Patterns of the names of files or samples that are ladders, whatever their case. Of ladder, negative and positive
    #: the first that fits is taken; what the instrument states of a sample's type comes before them.
    ladder_names: tuple[str, ...] = ("*ladder*",)
    #: Those of negative controls.
    negative_names: tuple[str, ...] = ("*neg*", "*ntc*", "*blank*")
    #: Those of positive controls.
    positive_names: tuple[str, ...] = ("*2800m*", "*9947a*", "*positive*")
    #: Patterns of the names of allele reports in the folder.
    annotation_names: tuple[str, ...] = ("*annotation*.csv", "*allelereport*.txt")
    #: Whether a run without a negative control fails ``negative_clean``.
    negative_required: bool = True

    def __post_init__(self) -> None:
        ranges = {
            "n_scanpoints": (256, 1 << 17),
            "max_residual_bp": (0.01, 5.0),
            "detection_rfu": (1.0, 10_000.0),
            "analytical_rfu": (self.detection_rfu, 30_000.0),
        }
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if not (math.isfinite(value) and low <= value <= high):
                raise ConfigurationError(
                    f"forensic.{name}", "is out of range", expected=f"{low:g} to {high:g}", got=f"{value:g}"
                )
        if self.size_standard_bp:
            _ = self.standard

    @property
    def sizing(self) -> SizingRules:
        """Rules of sizing."""
        return SizingRules(max_residual_bp=self.max_residual_bp)

    @property
    def calling(self) -> CallingRules:
        """Rules of calling."""
        return CallingRules(detection_rfu=self.detection_rfu, analytical_rfu=self.analytical_rfu)

    @property
    def standard(self) -> SizeStandard | None:
        """Size standard of every run; None: the one that each file names."""
        return SizeStandard("of the catalogue", self.size_standard_bp) if self.size_standard_bp else None

    @property
    def grid(self) -> ScanGrid:
        """Grid of the profiles."""
        return ScanGrid(self.n_scanpoints, standard=self.standard, sizing=self.sizing)

    def as_recipe(self) -> dict[str, JsonValue]:
        """Return every parameter, those of calling included, as JSON values."""
        own = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}
        return {**own, "calling": asdict(self.calling), "sizing": asdict(self.sizing)}

    def role_by_name(self, name: str) -> Role:
        """Return the role of a file that is no injection, or SAMPLE for an instrument file."""
        path = PurePosixPath(name)
        if path.suffix.lower() in INSTRUMENT_SUFFIXES:
            return Role.SAMPLE
        return Role.ANNOTATION if fits(path.name, self.annotation_names) else Role.OTHER

    def role_of(self, name: str, run: HidFile) -> Role:
        """Return the role of an injection: what the instrument states, else what its name or its sample's name says."""
        stated = (run.tags.find("STYP", 1, str) or "").lower()
        for role in _NAMED:
            if role in stated:
                return role
        for text in (PurePosixPath(name).stem, run.run.sample):
            for role in _NAMED:
                if text and fits(text, getattr(self, f"{role}_names")):
                    return role
        return Role.SAMPLE
