"""Traces of simulated injections: alleles with stutter and pull-up, size standard, baseline and noise.

Peaks are polynomials and noise is drawn without ``exp`` or ``log``, whose last digits differ between processors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from genolewm_assets.sample.forensic.abif import Tag, c_string, longs, moment, pascal, shorts, write_abif
from genolewm_assets.sample.forensic.kit import STANDARD, STANDARD_BP
from genolewm_assets.sample.genome import Draws

N_SCANS, N_DYES, STANDARD_CHANNEL = 4_000, 5, 5
FULL_SCALE = 32_767
#: What this instrument measures less than the panel file states, in base pairs, at size 0 and for each further one.
SHIFT_BP, SHIFT_PER_BP = 1.3, 0.001
#: Share of a peak that appears in the next dye.
PULL_UP = 0.04
_STANDARD_RFU, _PRIMER_RFU, _NOISE_RFU = 900.0, 36_000.0, 2.5
_HALF_WIDTH = 10.0
_KEY = 42
_NAMES = ("SIM-B", "SIM-G", "SIM-Y", "SIM-R", "SIM-O")


@dataclass(frozen=True, slots=True)
class Signal:
    """One peak that is put into a trace."""

    #: Channel of its dye, from 1.
    channel: int
    #: Size as the panel file would state it.
    panel_bp: float
    #: Height; more than the full scale saturates the detector.
    rfu: float


def scans_of(size_bp: float, injection: int) -> float:
    """Return the scan at which a fragment of a measured size passes the detector; it differs between injections."""
    late = Draws(_KEY, 1, injection).between(-30, 31, 1)[0]
    slow = 1 + Draws(_KEY, 2, injection).between(-4, 5, 1)[0] / 1_000
    return float(500 + late + slow * (6.4 * size_bp + 8e-4 * size_bp * size_bp))


def measured_bp(panel_bp: float) -> float:
    """Return the size that the instrument measures of what the panel file states."""
    return panel_bp - SHIFT_BP - SHIFT_PER_BP * panel_bp


def simulate_traces(
    signals: list[Signal], injection: int, *, standard: bool = True
) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int16]]:
    """Return the raw and the analysed traces of an injection, each int16, shape (dyes, scans)."""
    clean = np.zeros((N_DYES, N_SCANS))
    for channel in range(1, N_DYES + 1):
        _add(clean[channel - 1], scans_of(12.0, injection), _PRIMER_RFU, 4 * _HALF_WIDTH)
    for size in STANDARD_BP if standard else ():
        _add(clean[STANDARD_CHANNEL - 1], scans_of(size, injection), _STANDARD_RFU)
    for signal in signals:
        scan = scans_of(measured_bp(signal.panel_bp), injection)
        _add(clean[signal.channel - 1], scan, signal.rfu)
        _add(clean[signal.channel % 4], scan, PULL_UP * signal.rfu)
    noise = _NOISE_RFU * Draws(_KEY, 3, injection).normal(N_DYES * N_SCANS).reshape(clean.shape)
    baseline = 40 + 25 * np.abs(np.arange(N_SCANS) / N_SCANS - 0.4)
    smooth = (noise + np.roll(noise, 1, axis=1) + np.roll(noise, -1, axis=1)) / 3
    return _digitised(clean + noise + baseline), _digitised(clean + smooth)


def saturated_scans(raw: npt.NDArray[np.int16]) -> npt.NDArray[np.int64]:
    """Return the scans at which some dye reaches the full scale, in ascending order."""
    return np.flatnonzero((raw == FULL_SCALE).any(axis=0))


def _digitised(trace: npt.NDArray[np.float64]) -> npt.NDArray[np.int16]:
    return np.clip(np.rint(trace), -FULL_SCALE, FULL_SCALE).astype(np.int16)


def _add(trace: npt.NDArray[np.float64], scan: float, rfu: float, half_width: float = _HALF_WIDTH) -> None:
    """Add a peak, which is close to a normal curve with a quarter of the half width as standard deviation."""
    low, high = int(np.ceil(scan - half_width)), int(np.floor(scan + half_width)) + 1
    offset = (np.arange(low, high) - scan) / half_width
    shape = 1 - offset * offset
    for _ in range(3):
        shape = shape * shape
    trace[low:high] += rfu * shape


def injection_bytes(
    raw: npt.NDArray[np.int16], analysed: npt.NDArray[np.int16], *, injection: int, sample: str, kind: str
) -> bytes:
    """Return the file of an injection."""
    off_scale = saturated_scans(raw)
    sizes = ",".join(f"{size:.1f}" for size in STANDARD_BP)
    tags: list[Tag] = []
    for channel in range(1, N_DYES + 1):
        first, second = (channel, channel + 8) if channel <= 4 else (100 + channel, 200 + channel)
        tags += [shorts("DATA", first, raw[channel - 1]), shorts("DATA", second, analysed[channel - 1])]
        tags += [pascal("DyeN", channel, _NAMES[channel - 1]), shorts("DyeW", channel, 500 + 25 * channel)]
    tags += moment(1, (2024, 1, 7), (9, 30, 0))
    tags += [shorts("Dye#", 1, N_DYES), shorts("LANE", 1, injection), longs("SCAN", 1, N_SCANS)]
    tags += [longs("Satd", 1, off_scale), longs("OfSc", 1, off_scale), longs("InSc", 1, 15), longs("InVt", 1, 1_200)]
    tags += [longs("EPVt", 1, 13_000), pascal("MCHN", 1, "Simulator"), pascal("SVER", 1, "Simulated collection 1.0")]
    tags += [pascal("TUBE", 1, f"A{injection:02}"), pascal("StdF", 1, STANDARD), pascal("GTyp", 1, "SIM4")]
    tags += [c_string("InjN", 1, "Injection 1"), c_string("SpNm", 1, sample), c_string("STYP", 1, kind)]
    tags += [c_string("ScPa", 1, f"SizeStandardPeaks={sizes};SizeStandardDyeIndex={STANDARD_CHANNEL};")]
    return write_abif(tags)
