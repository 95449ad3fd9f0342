"""Shapes of generated genomes: contigs, gaps, and the numbers of alleles, records and windows in proportion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from genolewm_assets.genome import GRCH38

#: Bases, common alleles, ClinVar records and corpus windows at full size.
GENOME_BP, ALLELES, RECORDS, CORPUS_WINDOWS = 3_100_000_000, 15_000_000, 4_000_000, 4_000_000
#: Contigs of a scaled genome. None has a name that the default policy holds out as a whole.
_CONTIGS = ("chr1", "chr2", "chr3", "chr4", "chr5")
#: Share of the corpus windows by kind of record. A quarter is aligned: the last three.
KINDS: Mapping[str, float] = {
    "exempt": 0.27,
    "prokaryote": 0.21,
    "placed": 0.27,
    "unplaced": 0.08,
    "spliced": 0.15,
    "mrna": 0.02,
}
#: Corpus windows where memory per contig is measured, and not growth: at least, and by base of the contig, so that an
#: epoch, which grows with the alleles, visits none of them too often.
_FEW_WINDOWS, _WINDOWS_PER_BASE = 10_000, 0.0002
_TELOMERE_BP = 10_000
#: Gaps of chr21 of GRCh38, 0-based half-open, up to 10 Mbp and at its end: 6.32 of its 6.62 million N. Those of 50 kb,
#: by their starts, and others.
_CHR21_50_KB = (
    *(5_166_246, 5_393_558, 5_449_012, 5_627_596, 5_796_009, 5_916_593, 6_161_371, 6_377_258, 6_580_181, 6_739_085),
    *(6_934_219, 7_149_527, 7_327_865, 7_500_890, 7_693_700, 7_865_746, 8_049_839, 8_260_971, 8_472_360, 8_706_715),
    9_196_087,
)
_CHR21_OTHERS = ((0, 5_010_000), (8_217_206, 8_217_207), (8_886_604, 8_986_604), (9_377_143, 9_527_143))

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Shape:
    """A generated genome: ``scale`` is its share of GRCh38; ``gaps`` are 0-based half-open, sorted, by contig."""

    kind: Literal["scale", "contig", "chr21"]
    name: str
    scale: float
    contigs: Mapping[str, int]
    gaps: Mapping[str, tuple[Span, ...]]
    corpus_windows: int

    @property
    def total_bp(self) -> int:
        """Bases of all contigs, gaps included."""
        return sum(self.contigs.values())

    def known(self, contig: str) -> float:
        """Return the share of a contig that is no gap."""
        return 1 - sum(b - a for a, b in self.gaps[contig]) / self.contigs[contig]

    def share(self, whole: int, contig: str) -> int:
        """Return a contig's part of a number at full size."""
        return max(1, round(whole * self.scale * self.contigs[contig] / self.total_bp))


def scaled(scale: float, contigs: int = len(_CONTIGS), windows: int = CORPUS_WINDOWS) -> Shape:
    """Return a genome of ``scale`` x 3.1 Gbp in contigs of equal length, and as large a share of the corpus windows."""
    names = [f"chr{number}" for number in range(1, contigs + 1)]
    length = round(GENOME_BP * scale / contigs)
    return Shape(
        "scale",
        f"{scale:g}"
        + (f"x{contigs}" if contigs != len(_CONTIGS) else "")
        + (f"w{windows}" if windows != CORPUS_WINDOWS else ""),
        scale,
        dict.fromkeys(names, length),
        dict.fromkeys(names, _gaps(length)),
        round(windows * scale),
    )


def one_contig(name: str) -> Shape:
    """Return a genome of one contig with the length of one of GRCh38; chr21 has its gaps too."""
    length = GRCH38[name].length
    gaps = _gaps(length)
    if name == "chr21":
        ends = ((length - _TELOMERE_BP, length),)
        gaps = tuple(sorted((*_CHR21_OTHERS, *((at, at + 50_000) for at in _CHR21_50_KB), *ends)))
    kind: Literal["contig", "chr21"] = "chr21" if name == "chr21" else "contig"
    windows = max(_FEW_WINDOWS, round(length * _WINDOWS_PER_BASE))
    return Shape(kind, name, length / GENOME_BP, {name: length}, {name: gaps}, windows)


def _gaps(length: int) -> tuple[Span, ...]:
    """Return telomeres, a centromere of 3 % and two gaps of 0.5 %."""
    inner = ((0.4, 0.03), (0.6, 0.005), (0.8, 0.005))
    spans = ((int(length * at), int(length * (at + share))) for at, share in inner)
    return ((0, _TELOMERE_BP), *spans, (length - _TELOMERE_BP, length))
