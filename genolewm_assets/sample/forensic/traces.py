"""Files of simulated injections: traces of alleles with stutter and pull-up, size standard, baseline and noise.

Peaks are polynomials and noise is drawn without ``exp`` or ``log``, whose last digits differ between processors.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

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
_ENTRY = struct.Struct(">4sIHHIIII")
_HEADER_BYTES, _VERSION, _BLOCK_BYTES, _HANDLE = 128, 300, 8, 0x50000
_SHORT, _LONG, _PASCAL, _C_STRING, _DATE, _TIME = 4, 5, 18, 19, 10, 11
_UNIT_BYTES = {_SHORT: 2, _LONG: 4, _PASCAL: 1, _C_STRING: 1, _DATE: 4, _TIME: 4}
#: Element types of enciphered values by their plain ones.
_ENCIPHERED = {_SHORT: 28, _LONG: 31, _C_STRING: 33, _PASCAL: 34}
_HIDDEN = {"DATA", "DyeN", "DyeW", "ScPa", "Satd", "OfSc"}
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


class _Tag(NamedTuple):
    """One tag: name, number, element type, and its value as big-endian bytes."""

    name: str
    number: int
    kind: int
    value: bytes


def _tag(name: str, kind: int, value: npt.ArrayLike, number: int = 1) -> _Tag:
    """Return a tag of numbers, of a string with its length before it, or of one that ends with a zero."""
    if kind in {_SHORT, _LONG}:
        return _Tag(name, number, kind, np.atleast_1d(np.asarray(value)).astype(f">i{_UNIT_BYTES[kind]}").tobytes())
    text = str(value).encode("ascii")
    return _Tag(name, number, kind, bytes([len(text)]) + text if kind == _PASCAL else text + b"\0")


def injection_bytes(
    raw: npt.NDArray[np.int16], analysed: npt.NDArray[np.int16], *, injection: int, sample: str, kind: str
) -> bytes:
    """Return the file of an injection."""
    off_scale = np.flatnonzero((raw == FULL_SCALE).any(axis=0))
    sizes = ",".join(f"{size:.1f}" for size in STANDARD_BP)
    settings = f"SizeStandardPeaks={sizes};SizeStandardDyeIndex={STANDARD_CHANNEL};"
    facts: dict[int, dict[str, npt.ArrayLike]] = {
        _SHORT: {"Dye#": N_DYES, "LANE": injection},
        _LONG: {"SCAN": N_SCANS, "Satd": off_scale, "OfSc": off_scale, "InSc": 15, "InVt": 1_200, "EPVt": 13_000},
        _PASCAL: {
            "MCHN": "Simulator",
            "SVER": "Simulated collection 1.0",
            "TUBE": f"A{injection:02}",
            "StdF": STANDARD,
            "GTyp": "SIM4",
        },
        _C_STRING: {"InjN": "Injection 1", "SpNm": sample, "STYP": kind, "ScPa": settings},
    }
    tags = [_tag(name, form, value) for form, named in facts.items() for name, value in named.items()]
    for channel in range(1, N_DYES + 1):
        first, second = (channel, channel + 8) if channel <= 4 else (100 + channel, 200 + channel)
        tags += [_tag("DATA", _SHORT, raw[channel - 1], first), _tag("DATA", _SHORT, analysed[channel - 1], second)]
        tags += [_tag("DyeN", _PASCAL, _NAMES[channel - 1], channel), _tag("DyeW", _SHORT, 500 + 25 * channel, channel)]
    tags += [
        _Tag("RUND", 1, _DATE, (2024).to_bytes(2, "big") + bytes([1, 7])),
        _Tag("RUNT", 1, _TIME, bytes([9, 30, 0, 0])),
    ]
    return _write_abif(tags)


def _write_abif(tags: Sequence[_Tag]) -> bytes:
    """Return the bytes of a file whose main directory is scrambled, as the software of the ABI 3500 writes it.

    The plain values and a directory of them come first; nothing points to that directory. Enciphered copies of traces
    and dyes follow, padded to blocks of eight bytes, and the directory that the header points to (ABIF, 2006).
    """
    ordered = sorted(tags, key=lambda tag: (tag.name, tag.number))
    body = bytearray(_HEADER_BYTES)
    plain = [_store(body, tag) for tag in ordered]
    body += bytes(_ENTRY.size) + b"".join(plain) + bytes(_ENTRY.size)
    entries = [
        _store(body, _encipher(tag), _HANDLE) if tag.name in _HIDDEN else entry
        for tag, entry in zip(ordered, plain, strict=True)
    ]
    root = _ENTRY.pack(b"tdir", 1, 1023, _ENTRY.size, len(ordered), _ENTRY.size * len(ordered), len(body), 0)
    body += b"".join(entries)
    body[: 6 + len(root)] = b"ABIF" + _VERSION.to_bytes(2, "big") + root
    return bytes(body)


def _encipher(tag: _Tag) -> _Tag:
    """Return a tag with meaningless bytes of the length that the cipher would give."""
    plain_bytes = len(tag.value) - (tag.kind == _C_STRING)
    padded = (plain_bytes // _BLOCK_BYTES + 1) * _BLOCK_BYTES
    seed = f"{tag.name} {tag.number}".encode() + tag.value
    return _Tag(tag.name, tag.number, _ENCIPHERED[tag.kind], hashlib.shake_128(seed).digest(padded))


def _store(body: bytearray, tag: _Tag, handle: int = 0) -> bytes:
    """Append a value unless it fits its entry, and return the entry."""
    unit, size = _UNIT_BYTES.get(tag.kind, 1), len(tag.value)
    place = len(body) if size > 4 else int.from_bytes(tag.value.ljust(4, b"\0"), "big")
    if size > 4:
        body += tag.value
    return _ENTRY.pack(tag.name.encode("ascii"), tag.number, tag.kind, unit, size // unit, size, place, handle)
