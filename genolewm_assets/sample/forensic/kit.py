"""The invented kit SimPlex 12: its loci, panel and bin files in the format of GeneMapper, and genotypes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from genolewm_assets.sample.genome import Draws

#: Alleles by locus; one that is there twice is homozygous.
Genotype: TypeAlias = Mapping[str, tuple[str, ...]]

PANEL = "SimPlex_12_v1"
#: Fragments of the kit's size standard in base pairs, and its name.
STANDARD, STANDARD_BP = "SIM ILS 480", (60, 65, *range(80, 481, 20))
_KEY = 41
_COLOURS = ("blue", "green", "yellow", "red")


@dataclass(frozen=True, slots=True)
class KitLocus:
    """One locus of the kit."""

    name: str
    #: Channel of its dye, 1 to 4.
    channel: int
    #: Size in base pairs of no repeats.
    base_bp: int
    #: Length of the repeat.
    repeat_bp: int
    #: ``ladder``, ``virtual``: alleles of the ladder, and alleles that have a bin only.
    ladder: tuple[str, ...]
    virtual: tuple[str, ...] = ()

    @property
    def is_sex_marker(self) -> bool:
        """Whether it is amelogenin, which has neither repeats nor stutter."""
        return self.name == "AMEL"

    def size_bp(self, allele: str) -> float:
        """Return the size of an allele as the panel file states it."""
        if self.is_sex_marker:
            return self.base_bp + 6.0 * (allele == "Y")
        repeats, _, bases = allele.partition(".")
        return float(self.base_bp + int(repeats) * self.repeat_bp + int(bases or 0))


def _numbers(first: int, last: int, *more: str) -> tuple[str, ...]:
    return tuple(sorted([*map(str, range(first, last + 1)), *more], key=float))


KIT: tuple[KitLocus, ...] = (
    KitLocus("AMEL", 1, 72, 6, ("X", "Y")),
    KitLocus("SIM01", 1, 60, 4, _numbers(9, 20), ("8", "21")),
    KitLocus("SIM02", 1, 130, 4, _numbers(8, 20), ("13.2",)),
    KitLocus("SIM03", 1, 212, 5, _numbers(8, 20)),
    KitLocus("SIM04", 2, 50, 4, _numbers(8, 20, "14.3")),
    KitLocus("SIM05", 2, 150, 4, _numbers(7, 19), ("6",)),
    KitLocus("SIM06", 2, 222, 5, _numbers(9, 21, "13.4")),
    KitLocus("SIM07", 3, 60, 3, _numbers(10, 25)),
    KitLocus("SIM08", 3, 120, 4, _numbers(10, 22), ("17.2",)),
    KitLocus("SIM09", 3, 230, 4, _numbers(8, 22)),
    KitLocus("SIM10", 4, 55, 4, _numbers(8, 20)),
    KitLocus("SIM11", 4, 130, 4, _numbers(12, 26, "18.3")),
    KitLocus("SIM12", 4, 260, 4, _numbers(9, 24), ("16.1",)),
)


def draw_genotype(person: int) -> dict[str, tuple[str, ...]]:
    """Return the alleles of a person: two per locus, from the middle of the ladder; one person in two has a Y."""
    genotype: dict[str, tuple[str, ...]] = {}
    for number, locus in enumerate(KIT):
        if locus.is_sex_marker:
            genotype[locus.name] = ("X", "Y") if person % 2 else ("X", "X")
            continue
        inner = locus.ladder[2:-2]
        first, second = (inner[at] for at in Draws(_KEY, person, number).below(len(inner), 2).tolist())
        genotype[locus.name] = tuple(sorted((first, second), key=float))
    return genotype


def panel_text(control: Genotype) -> bytes:
    """Return the panel file; ``control`` are the alleles of the positive control that it states."""
    lines = ["Version\tGMID-X v 1.0", "Kit type:\tMICROSATELLITE", "Chemistry Kit\tSimPlex 12\tnone"]
    lines.append(f"Panel\t{PANEL}\tnull")
    for locus in KIT:
        sizes = [locus.size_bp(allele) for allele in (*locus.ladder, *locus.virtual)]
        span = f"{min(sizes) - 2.5:g}\t{max(sizes) + 2.5:g}"
        alleles = ",".join(dict.fromkeys(control[locus.name]))
        colour = _COLOURS[locus.channel - 1]
        lines.append(f"{locus.name}\t{colour}\t{span}\t{alleles}\t{locus.repeat_bp}\tnone\t{', '.join(locus.ladder)}")
    return _file(lines)


def bin_text() -> bytes:
    """Return the bin file."""
    lines = [
        "Version\tGMID-X v 1.0",
        "Chemistry Kit\tSimPlex 12",
        "BinSet Name\tSimPlex_12_bins",
        f"Panel Name\t{PANEL}",
    ]
    for locus in KIT:
        lines.append(f"Marker Name\t{locus.name}")
        lines += [f"{allele}\t{locus.size_bp(allele):g}\t0.45\t0.45" for allele in locus.ladder]
        lines += [f"{allele}\t{locus.size_bp(allele):g}\t0.45\t0.45\tvirtual" for allele in locus.virtual]
    return _file(lines)


def _file(lines: list[str]) -> bytes:
    return "\r\n".join([*lines, ""]).encode("ascii")
