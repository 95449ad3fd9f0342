"""Simulated injections of a made-up kit of five dyes: the kit's panel files, its ladder, and samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from genolewm_assets_tests.worlds.forensic.abif_files import TagBytes, c_string, numbers, pascal, write_abif

Genotype = Mapping[str, Sequence[str]]

N_SCANS = 7_000
#: Fragments of GeneScan LIZ 600.
LIZ_600 = sorted({*range(20, 601, 20), 114, 214, 250, 314, 414, 514})
#: What the ladder of this instrument shows less than the panel file says, in base pairs.
SHIFT_BP = 1.7


@dataclass(frozen=True)
class MadeLocus:
    """A locus: colour, channel, size of the allele 0, repeat, alleles of the ladder, and virtual ones."""

    colour: str
    channel: int
    base_bp: float
    repeat_bp: int
    ladder: tuple[str, ...]
    virtual: tuple[str, ...] = ()

    def size(self, allele: str) -> float:
        if allele in {"X", "Y"}:
            return self.base_bp + (6 if allele == "Y" else 0)
        repeats, _, bases = allele.partition(".")
        return self.base_bp + int(repeats) * self.repeat_bp + int(bases or 0)


def repeats(first: int, last: int) -> tuple[str, ...]:
    return tuple(str(n) for n in range(first, last + 1))


KIT = {
    "AMELX": MadeLocus("blue", 1, 98, 9, ("X", "Y")),
    "M1": MadeLocus("blue", 1, 90, 4, repeats(9, 20), ("14.2",)),
    "M2": MadeLocus("blue", 1, 160, 4, repeats(7, 18), ("9.1",)),
    "M3": MadeLocus("green", 2, 80, 5, repeats(5, 17)),
    "M4": MadeLocus("green", 2, 200, 4, (*repeats(8, 10), "9.3", *repeats(11, 20))),
    "M5": MadeLocus("Yellow", 3, 100, 3, repeats(7, 19)),
    "M6": MadeLocus("yellow", 3, 180, 4, repeats(10, 24)),
    "M7": MadeLocus("RED", 4, 240, 4, repeats(9, 22), ("15.3",)),
}
GENOTYPE: Genotype = {
    "AMELX": ("X", "Y"),
    "M1": ("14", "15"),
    "M2": ("9",),
    "M3": ("6", "16"),
    "M4": ("9.3", "10"),
    "M5": ("12", "15"),
    "M6": ("17", "21"),
    "M7": ("15.3",),
}


def write_panel_files(folder: Path, kit: Mapping[str, MadeLocus] = KIT) -> tuple[Path, Path]:
    panel = [
        "Version\tGMID-X v 1.0\t\t",
        "Kit type:\tMICROSATELLITE\t\t",
        "Chemistry Kit\tMade\tnone",
        "Panel\tMade_v1\tnull",
    ]
    bins = ["Version\tGMID-X v 1.0\t\t", "Chemistry Kit\tMade", "BinSet Name\tMade_bins", "Panel Name\tMade_v1"]
    for name, locus in kit.items():
        sizes = [locus.size(allele) for allele in (*locus.ladder, *locus.virtual)]
        ladder, control = ", ".join(locus.ladder), ",".join(GENOTYPE.get(name, ()))
        cells = [name, locus.colour, min(sizes) - 2, max(sizes) + 2, control, locus.repeat_bp, "none", ladder]
        panel.append("\t".join(map(str, cells)))
        bins.append(f"Marker Name\t{name}")
        bins += [f"{allele}\t{locus.size(allele)}\t0.5\t0.5" for allele in locus.ladder]
        bins += [f"{allele}\t{locus.size(allele)}\t0.5\t0.5\tvirtual" for allele in locus.virtual]
    paths = folder / "Made_Panel.txt", folder / "Made_Bins.txt"
    for path, lines in zip(paths, (panel, bins), strict=True):
        path.write_bytes("\r\n".join([*lines, ""]).encode())
    return paths


def scan_of(size_bp: npt.ArrayLike) -> npt.NDArray[np.float64]:
    size = np.asarray(size_bp, np.float64)
    return 1_500 + 8.5 * size + 8e-4 * size**2


def traces(
    genotype: Genotype,
    *,
    height: float = 2_000,
    stutter: float = 0.08,
    seed: int = 0,
    kit: Mapping[str, MadeLocus] = KIT,
    n_dyes: int = 5,
) -> npt.NDArray[np.float64]:
    """Return the fluorescence of all dyes: primer blobs, size standard (the fifth), the alleles with their stutter."""
    rng = np.random.default_rng(seed)
    signal = rng.normal(0, 2, (n_dyes, N_SCANS)) + 30
    for size in LIZ_600:
        add_peak(signal[4], float(scan_of(size)), 800)
    for channel in range(n_dyes):
        for scan in (1_520, 1_560, 1_600):
            add_peak(signal[channel], scan, 9_000)
    for name, alleles in genotype.items():
        locus = kit[name]
        for allele in alleles:
            size = locus.size(allele) - SHIFT_BP
            add_peak(signal[locus.channel - 1], float(scan_of(size)), height)
            if locus.ladder[0] != "X":
                add_peak(signal[locus.channel - 1], float(scan_of(size - locus.repeat_bp)), stutter * height)
    return signal


def ladder_traces(kit: Mapping[str, MadeLocus] = KIT, n_dyes: int = 5) -> npt.NDArray[np.float64]:
    return traces({name: locus.ladder for name, locus in kit.items()}, height=3_000, kit=kit, n_dyes=n_dyes)


def add_peak(trace: npt.NDArray[np.float64], scan: float, height: float, width: float = 2.5) -> None:
    low, high = int(scan - 6 * width), int(scan + 6 * width)
    if low >= 0 and high < len(trace):
        scans = np.arange(low, high)
        trace[low:high] += height * np.exp(-(((scans - scan) / width) ** 2) / 2)


def run_tags(signal: npt.NDArray[np.float64], *, standard: str = "GS600 LIZ") -> list[TagBytes]:
    """Return the tags of an injection with these traces, without analysed ones, as a 3130 writes it."""
    values = np.clip(np.round(signal), -32_768, 32_767)
    tags = [
        numbers("DATA", channel if channel <= 4 else 100 + channel, 4, trace) for channel, trace in enumerate(values, 1)
    ]
    names = ("6-FAM", "VIC", "NED", "PET", "LIZ", "SID")
    tags += [pascal("DyeN", number, names[number - 1]) for number in range(1, len(values) + 1)]
    tags += [numbers("DyeW", number, 4, 500 + 20 * number) for number in range(1, len(values) + 1)]
    return [
        *tags,
        numbers("Dye#", 1, 4, len(values)),
        numbers("LANE", 1, 4, 7),
        numbers("InSc", 1, 5, 12),
        numbers("InVt", 1, 5, 1_200),
        numbers("Scal", 1, 7, 2.0),
        numbers("SzFt", 1, 8, [0.5, 1e-3]),
        pascal("MCHN", 1, "Simulator"),
        pascal("StdF", 1, standard),
        pascal("TUBE", 1, "A01"),
        c_string("InjN", 1, "Injection 1"),
        TagBytes("RUND", 1, 10, b"\x07\xe9\x02\x1c"),
        TagBytes("RUNT", 1, 11, bytes([23, 5, 9, 50])),
        TagBytes("Anld", 1, 13, b"\1"),
        TagBytes("APrX", 1, 2, b"<xml/>"),
        TagBytes("Rate", 1, 1024, bytes(12)),
    ]


def run_bytes(signal: npt.NDArray[np.float64], *, scrambled: bool = False) -> bytes:
    return write_abif(run_tags(signal), scrambled=scrambled, version=300 if scrambled else 101)
