"""Values of a called profile; none of them prints an allele."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, auto

#: Name of an allele that lies in no bin.
OFF_LADDER = "OL"


class PeakFlag(Flag):
    """What is to be said of a peak; those of :attr:`ARTEFACT` make it no allele."""

    NONE = 0
    #: Lower than the analytical threshold.
    LOW = auto()
    #: No higher than stutter of its neighbours may be.
    STUTTER = auto()
    #: No higher than pull-up of another dye's peak may be.
    PULL_UP = auto()
    #: Lower than a share of the highest peak of the locus.
    MINOR = auto()
    #: Outside the fragments of the size standard that were found, so that its size is an estimate.
    UNSIZED = auto()
    #: In no bin.
    OFF_LADDER = auto()
    #: The detector was saturated at one of its scans, so that its height is too low and other dyes are disturbed.
    OFF_SCALE = auto()
    ARTEFACT = LOW | STUTTER | PULL_UP | MINOR | UNSIZED


@dataclass(frozen=True, slots=True, repr=False)
class CalledPeak:
    """One peak in the range of a locus.

    Attributes
    ----------
    locus, channel
        Its locus, and the channel of its dye.
    allele
        Name of the bin, or :data:`OFF_LADDER`.
    size_bp, distance_bp
        Size, and distance from the middle of the nearest bin, in base pairs.
    height_rfu
        Height in relative fluorescence units.
    scan, left, right
        Top (between scans), first and last scan.
    flags
        What is to be said of it.
    """

    locus: str
    channel: int
    allele: str
    size_bp: float
    distance_bp: float
    height_rfu: float
    scan: float
    left: int
    right: int
    flags: PeakFlag

    def __repr__(self) -> str:
        return f"CalledPeak(locus={self.locus!r}, channel={self.channel}, flags={self.flags!r})"

    @property
    def is_allele(self) -> bool:
        """Whether no artefact explains the peak."""
        return not self.flags & PeakFlag.ARTEFACT


@dataclass(frozen=True, slots=True, repr=False)
class ProfileCalls:
    """The called profile of one run.

    Attributes
    ----------
    loci
        Names of the panel's loci, in its order.
    peaks
        Every peak in the range of a locus, artefacts too, by locus and size.
    """

    loci: tuple[str, ...]
    peaks: tuple[CalledPeak, ...]

    def __repr__(self) -> str:
        called = sum(peak.is_allele for peak in self.peaks)
        return f"ProfileCalls({len(self.loci)} loci, {len(self.peaks)} peaks, {called} called)"

    @property
    def genotype(self) -> dict[str, tuple[str, ...]]:
        """Alleles of each locus in order of their sizes, once each; an empty tuple where nothing is called."""
        alleles: dict[str, dict[str, None]] = {locus: {} for locus in self.loci}
        for peak in self.peaks:
            if peak.is_allele:
                alleles[peak.locus][peak.allele] = None
        return {locus: tuple(own) for locus, own in alleles.items()}
