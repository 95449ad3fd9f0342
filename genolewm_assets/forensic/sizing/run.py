"""Size standards, the fragments that are run beside every sample, and the size in base pairs of every scan of a run."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from genolewm_assets.errors import SizingError
from genolewm_assets.forensic.abif import HidFile
from genolewm_assets.forensic.signal import Peaks, find_peaks, flatten

Floats = npt.NDArray[np.float64]
_MIN_FOUND, _MAX_CANDIDATES = 5, 150
_MIN_FRAGMENTS, _MAX_FRAGMENTS = 5, 100


@dataclass(frozen=True, slots=True)
class SizeStandard:
    """Fragments of a size standard, in base pairs.

    Raises
    ------
    SizingError
        If there are fewer than 5 or more than 100 fragments, or they do not ascend strictly.
    """

    name: str
    sizes_bp: tuple[float, ...]

    def __post_init__(self) -> None:
        sizes = self.sizes_bp
        ascending = all(low < high for low, high in pairwise(sizes))
        if not (_MIN_FRAGMENTS <= len(sizes) <= _MAX_FRAGMENTS and ascending and all(map(math.isfinite, sizes))):
            raise SizingError(
                f"size standard {self.name!r}",
                "its fragments are unusable",
                expected=f"{_MIN_FRAGMENTS} to {_MAX_FRAGMENTS} sizes in ascending order",
                got=f"{len(sizes)}" + ("" if ascending else ", not ascending"),
            )


_PROMEGA_500 = (60, 65, 80, *range(100, 201, 20), *range(225, 501, 25))
_GENESCAN_500 = (35, 50, 75, 100, 139, 150, 160, 200, 250, 300, 340, 350, 400, 450, 490, 500)
_GENESCAN_600 = tuple(sorted({*range(20, 601, 20), 114, 214, 250, 314, 414, 514}))
#: Fragments as makers publish them, by what the name of the standard holds, whatever stands between.
_PUBLISHED = {
    ("WEN", "500"): _PROMEGA_500,
    ("CC5", "500"): _PROMEGA_500,
    ("ILS", "600"): (60, *range(80, 201, 20), *range(225, 501, 25), 550, 600),
    ("BTO", "550"): (60, 80, 90, *range(100, 241, 20), 250, *range(260, 401, 20), *range(425, 551, 25)),
    ("LIZ", "600"): _GENESCAN_600,
    ("LIZ", "500"): _GENESCAN_500,
    ("ROX", "500"): _GENESCAN_500,
}
#: In a name, ``(60-460)`` keeps the fragments of a range, ``(-250)`` leaves one out.
_RANGE, _LEFT_OUT = re.compile(r"\((\d{1,4})-(\d{1,4})\)"), re.compile(r"\(-(\d{1,4})\)")


def standard_of(run: HidFile) -> SizeStandard:
    """Return the size standard of a run: the fragments that the file states, else the published ones of its name.

    Raises
    ------
    SizingError
        If the file states neither fragments nor a name that is known.
    """
    name = run.run.size_standard
    if run.run.size_standard_sizes_bp:
        return SizeStandard(name, run.run.size_standard_sizes_bp)
    plain = re.sub(r"\([^)]*\)", "", name.upper())
    for words, sizes in _PUBLISHED.items():
        if all(word in plain for word in words):
            return SizeStandard(name, _kept(name, sizes))
    raise SizingError(
        run.where,
        "the size standard is unknown",
        expected=f"the name of one of {', '.join(map(' '.join, sorted(_PUBLISHED)))}",
        got=repr(name),
        remedy="Give its fragments as a SizeStandard",
    )


def _kept(name: str, sizes: Sequence[int]) -> tuple[float, ...]:
    """Return the fragments that a name like ``GS600(60-460)LIZ`` or ``GS500(-250)LIZ`` keeps."""
    spans = _RANGE.findall(name) or [("0", "9999")]
    left_out = set(map(int, _LEFT_OUT.findall(name)))
    low, high = map(int, spans[0])
    return tuple(float(size) for size in sizes if low <= size <= high and size not in left_out)


@dataclass(frozen=True, slots=True)
class SizingRules:
    """What is a fragment of the size standard, and when a run counts as sized.

    Attributes
    ----------
    min_height_rfu
        Lowest peak that may be a fragment.
    min_found
        Least share of the fragments that must be found.
    max_residual_bp
        Largest distance of a fragment from the smooth curve through all.
    """

    min_height_rfu: float = 50.0
    min_found: float = 0.8
    max_residual_bp: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Sizing:
    """The size standard of one run.

    Attributes
    ----------
    sizes_bp, scans, heights
        Fragments that were found: float64, shape (n_found,), ascending.
    residuals_bp
        Distance of each from the cubic through all by least squares: float64, shape (n_found,).
    r_squared
        Share of the variance of the sizes that this cubic explains.
    off_scale
        Number of fragments at whose scans the detector was saturated.
    scaler
        Size in base pairs at each scan, by local Southern; along the tangents outside the found fragments, where sizes
        are no measurements: float32, shape (n_scans,), ascending.
    """

    standard: SizeStandard
    sizes_bp: Floats = field(repr=False)
    scans: Floats = field(repr=False)
    heights: Floats = field(repr=False)
    residuals_bp: Floats = field(repr=False)
    r_squared: float
    off_scale: int
    scaler: npt.NDArray[np.float32] = field(repr=False)

    @property
    def missing_bp(self) -> tuple[float, ...]:
        """Fragments that were not found, in base pairs."""
        return tuple(sorted(set(self.standard.sizes_bp) - set(self.sizes_bp.tolist())))

    def covers(self, scans: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Tell which scans lie between the first and the last fragment found, so that their sizes are measurements."""
        at = np.asarray(scans, np.float64)
        return np.asarray((at >= self.scans[0]) & (at <= self.scans[-1]))

    def size_at(self, scans: npt.ArrayLike) -> Floats:
        """Return the size in base pairs at some scans, between scans too."""
        return local_southern(self.scans, self.sizes_bp, scans)


def size_run(run: HidFile, *, standard: SizeStandard | None = None, rules: SizingRules | None = None) -> Sizing:
    """Find the size standard of a run and return the size of every scan.

    Parameters
    ----------
    standard
        Its fragments; None: those that the file states, else the published ones of the name that it states.

    Raises
    ------
    SizingError
        If the standard is unknown, too few of its fragments are found, or they do not lie on a smooth curve.
    """
    rules = rules or SizingRules()
    standard = standard or standard_of(run)
    channel = run.run.size_standard_channel
    dye = run.dyes[channel - 1]
    peaks = find_peaks(flatten(dye.raw, dye.analysed), min_height=rules.min_height_rfu)
    sizes, found = _match(peaks, standard)
    needed = max(_MIN_FOUND, int(np.ceil(rules.min_found * len(standard.sizes_bp))))
    if len(sizes) < needed:
        raise SizingError(
            f"{run.where} channel {channel}",
            f"the size standard {standard.name!r} is not found",
            expected=f"at least {needed} of {len(standard.sizes_bp)} fragments",
            got=str(len(sizes)),
            remedy="Check the injection, and that the run names its size standard",
        )
    residuals, r_squared = _smooth_fit(found.scan, sizes)
    if np.abs(residuals).max() > rules.max_residual_bp:
        raise SizingError(
            f"{run.where} channel {channel}",
            f"the size standard {standard.name!r} does not lie on a smooth curve",
            expected=f"at most {rules.max_residual_bp} bp from it",
            got=f"{np.abs(residuals).max():.2f} bp at {sizes[np.abs(residuals).argmax()]:g} bp",
            remedy="Look at the trace of the size standard",
        )
    scaler = local_southern(found.scan, sizes, np.arange(run.n_scans)).astype(np.float32)
    off_scale = int(found.touch(run.off_scale).sum())
    return Sizing(standard, sizes, found.scan, found.height, residuals, r_squared, off_scale, scaler)


def _match(peaks: Peaks, standard: SizeStandard) -> tuple[Floats, Peaks]:
    """Return the fragments found and their peaks, among the highest peaks."""
    from genolewm_assets.forensic.sizing.match_kernels import match_fragments

    sizes = np.array(standard.sizes_bp)
    n_candidates = min(3 * len(sizes) + 20, _MAX_CANDIDATES)
    highest = np.sort(np.argsort(-peaks.height, kind="stable")[:n_candidates])
    candidates = peaks.take(highest)
    chosen = np.full(len(sizes), -1, np.int64)
    match_fragments(candidates.scan, candidates.height, sizes, chosen)
    return sizes[chosen >= 0], candidates.take(chosen[chosen >= 0])


def _smooth_fit(scans: Floats, sizes: Floats) -> tuple[Floats, float]:
    curve = np.polynomial.Polynomial.fit(scans, sizes, 3)
    residuals = sizes - curve(scans)
    return residuals, float(1 - (residuals**2).sum() / ((sizes - sizes.mean()) ** 2).sum())


def local_southern(scans: Floats, sizes: Floats, at: npt.ArrayLike) -> Floats:
    """Return the size at some scans in base pairs, by local Southern (Southern 1979; Elder and Southern 1983).

    Three fragments define a hyperbola of size over scan. Between two fragments the size is the mean of the hyperbola
    through these and the one before, and that through these and the one after. Each ascends between its outer points
    as long as scans and sizes do, so the mean does too. ``scans`` and ``sizes`` are at least three fragments; before
    the first and after the last one, sizes lie along the tangent there.
    """
    where = np.asarray(at, np.float64)
    inside = np.clip(where, scans[0], scans[-1])
    middle, rise, bend = _hyperbolas(scans, sizes)
    segment = np.clip(np.searchsorted(scans, inside, side="right") - 1, 0, len(scans) - 2)
    lower, upper = np.maximum(segment - 1, 0), np.minimum(segment, len(scans) - 3)
    size = np.zeros_like(inside)
    for curve in (lower, upper):
        distance = inside - scans[middle[curve]]
        size += sizes[middle[curve]] + distance * rise[curve] / (1 + bend[curve] * distance)
    slopes = [float(rise[k] / (1 + bend[k] * (scans[k] - scans[middle[k]])) ** 2) for k in (0, -1)]
    outside = where - inside
    return size / 2 + outside * np.where(outside < 0, *slopes)


def _hyperbolas(scans: Floats, sizes: Floats) -> tuple[npt.NDArray[np.intp], Floats, Floats]:
    """Return the curves ``sizes[m] + d * rise / (1 + bend * d)``, ``d`` scans from ``m``, through three points each."""
    middle = np.arange(1, len(scans) - 1)
    before, after = scans[:-2] - scans[1:-1], scans[2:] - scans[1:-1]
    first, last = (sizes[:-2] - sizes[1:-1]) / before, (sizes[2:] - sizes[1:-1]) / after
    bend = (first - last) / (sizes[2:] - sizes[:-2])
    return middle, first * (1 + bend * before), bend
