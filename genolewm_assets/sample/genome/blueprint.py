"""Coordinates of gaps, genes and duplications on the simulated contigs, 0-based half-open.

The contigs are rich in genes, because a fifth of the genes has to cover about fifty windows. Neighbouring genes are
more than one window apart, except SIM5 and SIM6, whose tails overlap and which therefore form one gene component.
"""

from __future__ import annotations

from dataclasses import dataclass

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class GenePlan:
    """Name, coordinates (0-based half-open) and strand of one gene."""

    symbol: str
    gene_id: int
    start: int
    end: int
    strand: str


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """A segmental duplication: an interval copied to another place, with ``per_mille`` of its bases substituted."""

    source: str
    source_start: int
    target: str
    target_start: int
    size_bp: int
    per_mille: int
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class ContigPlan:
    """Layout of one contig; ``number`` is part of its random keys, ``satellite`` is its array of 171 bp monomers."""

    name: str
    number: int
    length: int
    gaps: tuple[Span, ...]
    satellite: Span
    genes: tuple[GenePlan, ...]


def _genes(first: int, *places: tuple[int, int, str]) -> tuple[GenePlan, ...]:
    return tuple(
        GenePlan(f"SIM{n}", 99_000_000 + n, start * 1000, end * 1000, strand)
        for n, (start, end, strand) in enumerate(places, start=first)
    )


CHR17 = ContigPlan(
    "chr17",
    17,
    2_000_000,
    gaps=((0, 10_000), (1_180_000, 1_230_000), (1_990_000, 2_000_000)),
    satellite=(1_150_000, 1_180_000),
    genes=_genes(
        1,
        (40, 130, "+"),
        (160, 300, "-"),
        (330, 400, "+"),
        (430, 560, "-"),
        (600, 690, "+"),
        (686, 800, "-"),
        (1260, 1380, "+"),
        (1420, 1600, "-"),
    ),
)
CHR20 = ContigPlan(
    "chr20",
    20,
    2_200_000,
    gaps=((0, 60_000), (1_400_000, 1_450_000), (1_700_000, 1_700_137), (2_190_000, 2_200_000)),
    satellite=(1_385_000, 1_400_000),
    genes=_genes(
        9, (100, 220, "+"), (260, 340, "-"), (380, 520, "+"), (560, 700, "-"), (1480, 1620, "+"), (1750, 1900, "-")
    ),
)
#: The ACGT run 670,000-675,000 is shorter than a window; the gap at 1,900,000 has fifty bases.
CHR21 = ContigPlan(
    "chr21",
    21,
    3_400_000,
    gaps=(
        (0, 100_000),
        (620_000, 670_000),
        (675_000, 680_000),
        (1_250_000, 1_251_000),
        (1_900_000, 1_900_050),
        (2_600_000, 2_620_000),
        (3_390_000, 3_400_000),
    ),
    satellite=(590_000, 620_000),
    genes=_genes(
        15,
        (140, 230, "+"),
        (270, 400, "-"),
        (430, 540, "+"),
        (720, 860, "-"),
        (900, 980, "+"),
        (1300, 1440, "-"),
        (1480, 1580, "+"),
        (1950, 2100, "-"),
        (2660, 2780, "+"),
        (2820, 3000, "-"),
    ),
)
LINEAR_CONTIGS: tuple[ContigPlan, ...] = (CHR17, CHR20, CHR21)

#: The first copies a part of SIM7 to chr20 (a paralogue). The last is an exact copy at a distance of a whole number of
#: strides from its source, in the same run, so that windows at different places have equal hashes.
SEGMENTS: tuple[SegmentPlan, ...] = (
    SegmentPlan("chr17", 1_330_000, "chr20", 800_000, 35_000, 10),
    SegmentPlan("chr20", 1_000_000, "chr21", 1_040_000, 30_000, 30),
    SegmentPlan("chr21", 1_620_000, "chr21", 3_050_000, 40_000, 20, reverse=True),
    SegmentPlan("chr21", 2_150_000, "chr21", 2_150_000 + 24 * 8_192, 45_056, 0),
)

CHRM_LENGTH = 16_569
CHRM_NUMBER = 25
#: 0-based position of the N that keeps the numbering of the original human reference (position 3,107 of the rCRS).
CHRM_UNKNOWN = 3_106
CHRM_GENES: tuple[GenePlan, ...] = (
    GenePlan("SIMMT1", 99_000_101, 600, 1_600, "+"),
    GenePlan("SIMMT2", 99_000_102, 3_300, 4_260, "+"),
    GenePlan("SIMMT3", 99_000_103, 5_900, 7_400, "+"),
    GenePlan("SIMMT4", 99_000_104, 14_700, 15_800, "+"),
)

#: A regulatory element inside the protein-coding gene SIM3; ClinVar-style records name both.
ELEMENT = GenePlan("LOC99000203", 99_000_203, 335_000, 341_000, "+")
ELEMENT_CONTIG = "chr17"
