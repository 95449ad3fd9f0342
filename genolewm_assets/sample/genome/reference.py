"""The simulated genome: three linear contigs and a circular one, structured like real contigs.

They have isochores, depleted CpG and CpG islands, dispersed and tandem repeats, satellites, genes, segmental
duplications and gaps. No base is copied from a real genome.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.sample.genome.blueprint import (
    CHRM_GENES,
    CHRM_LENGTH,
    CHRM_NUMBER,
    CHRM_UNKNOWN,
    LINEAR_CONTIGS,
    SEGMENTS,
    ContigPlan,
    Span,
)
from genolewm_assets.sample.genome.draws import Draws
from genolewm_assets.sample.genome.genes import Gene, write_gene

Codes = NDArray[np.uint8]
Mask = NDArray[np.bool_]
UNKNOWN = 4
_LETTERS = np.frombuffer(b"ACGTN", dtype=np.uint8)
#: G+C of the five isochore families in per mille, and their weights (Bernardi's L1, L2, H1, H2, H3).
_ISOCHORES = ((370, 30), (400, 30), (440, 20), (490, 13), (540, 7))
_DEAMINATED = 0.8
#: Length of the consensus in bases, G+C in per cent, and weight among the copies, of families like Alu, L1, a long
#: terminal repeat and a DNA transposon.
_FAMILIES = ((300, 60, 5), (6_000, 42, 3), (450, 48, 2), (250, 40, 1))
_DISPERSED_SPACING_BP = 1_300
_TANDEM_SPACING_BP = 5_000
_MONOMER_BP = 171
_LINE_BASES = 60


@dataclass(frozen=True, slots=True)
class SimulatedContig:
    """One contig as base codes, uint8, A 0, C 1, G 2, T 3, N 4, and as masks, bool, over its 0-based positions."""

    name: str
    codes: Codes
    repeat: Mask
    low_complexity: Mask
    duplicated: Mask
    excluded: Mask
    genes: tuple[Gene, ...]

    @property
    def sequence(self) -> bytes:
        """Upper-case bases."""
        return _LETTERS[self.codes].tobytes()

    def fasta(self) -> bytes:
        """Return the FASTA record with repeats in lower case, as in the files of the public servers."""
        letters = _LETTERS[self.codes] | np.where(self.repeat & (self.codes != UNKNOWN), 32, 0).astype(np.uint8)
        rows = -(-letters.size // _LINE_BASES)
        lines = np.full((rows, _LINE_BASES + 1), ord("\n"), dtype=np.uint8)
        padded = np.full(rows * _LINE_BASES, ord("\n"), dtype=np.uint8)
        padded[: letters.size] = letters
        lines[:, :_LINE_BASES] = padded.reshape(rows, _LINE_BASES)
        body = lines.tobytes()[: letters.size + (letters.size - 1) // _LINE_BASES] + b"\n"
        return f">{self.name} simulated sequence, not GRCh38 LN:{letters.size}\n".encode("ascii") + body


def spans_of(mask: Mask) -> list[Span]:
    """Return the maximal runs of true values of a mask, 0-based half-open."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def simulate_reference() -> Mapping[str, SimulatedContig]:
    """Return the contigs by name, in genome order."""
    contigs = {plan.name: _simulate_linear(plan) for plan in LINEAR_CONTIGS}
    for number, segment in enumerate(SEGMENTS):
        _copy_segment(contigs, number)
        target = contigs[segment.target]
        target.duplicated[segment.target_start : segment.target_start + segment.size_bp] = True
        source = contigs[segment.source]
        source.duplicated[segment.source_start : segment.source_start + segment.size_bp] = True
    for plan in LINEAR_CONTIGS:
        _open_gaps(contigs[plan.name], plan)
    return {**contigs, "chrM": _simulate_mitochondrion()}


def _simulate_linear(plan: ContigPlan) -> SimulatedContig:
    islands = _place_islands(plan)
    codes = _draw_bases(plan, islands)
    repeat = _disperse_repeats(codes, Draws(plan.number, 4), Draws(0, 4))
    _deplete_cpg(codes, islands, Draws(plan.number, 3))
    tandem = _insert_tandem_repeats(codes, Draws(plan.number, 5))
    satellite = _insert_satellite(codes, plan.satellite, Draws(plan.number, 6))
    repeat |= tandem | satellite
    genes = tuple(write_gene(codes, plan.name, gene, Draws(plan.number, 7, gene.gene_id)) for gene in plan.genes)
    for gene in genes:
        for start, end in gene.exons:
            repeat[start:end] = False
            tandem[start:end] = False
    return SimulatedContig(plan.name, codes, repeat, tandem, np.zeros(codes.size, np.bool_), satellite, genes)


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the concatenation of 0..n-1 for each n of ``lengths``, int64."""
    ends = np.cumsum(lengths)
    return np.arange(int(ends[-1]), dtype=np.int64) - np.repeat(ends - lengths, lengths)


def _substitute(codes: Codes, rates: NDArray[np.float64], draws: Draws) -> Codes:
    """Return a copy of ``codes`` in which each base is replaced by another with its probability in ``rates``."""
    changed = draws.uniform(codes.size) < rates
    shift = 1 + draws.below(3, codes.size)
    return np.where(changed, (codes + shift) % 4, codes).astype(np.uint8)


def _consensus(draws: Draws) -> list[Codes]:
    library = []
    for length, gc_percent, _ in _FAMILIES:
        gc = draws.uniform(length) * 100 < gc_percent
        strong = draws.uniform(length) < 0.5
        library.append(np.where(gc, np.where(strong, 1, 2), np.where(strong, 0, 3)).astype(np.uint8))
    library[0][-25:] = 0  # poly(A) tail of a short retrotransposon
    return library


def _disperse_repeats(codes: Codes, draws: Draws, library_draws: Draws) -> Mask:
    """Insert copies of the repeat families on both strands, 1-20 % diverged; long ones are truncated at the 5' end."""
    library = _consensus(library_draws)
    n = codes.size // _DISPERSED_SPACING_BP
    family = draws.choose([weight for _, _, weight in _FAMILIES], n)
    full = np.array([c.size for c in library], dtype=np.int64)[family]
    kept = np.where(full > 1_000, 400 + (draws.uniform(n) * draws.uniform(n) * (full - 400)).astype(np.int64), full)
    starts = np.sort(draws.below(codes.size, n))
    fits = starts + kept < np.append(starts[1:], codes.size)
    family, full, kept, starts = family[fits], full[fits], kept[fits], starts[fits]
    offset = _offsets(kept)
    reverse = np.repeat(draws.uniform(starts.size) < 0.5, kept)
    consensus_start = np.cumsum([0, *[c.size for c in library[:-1]]])[family]
    forward_at = np.repeat(consensus_start + full - kept, kept) + offset
    reverse_at = np.repeat(consensus_start + full - 1, kept) - offset
    bases = np.concatenate(library)[np.where(reverse, reverse_at, forward_at)]
    bases = np.where(reverse, 3 - bases, bases).astype(np.uint8)
    divergence = np.repeat(0.01 + 0.19 * draws.uniform(starts.size), kept)
    return _lay(codes, np.repeat(starts, kept) + offset, _substitute(bases, divergence, draws))


def _insert_tandem_repeats(codes: Codes, draws: Draws) -> Mask:
    """Insert arrays of 1-6 bp units, 12 to 79 bp long (2 % of them 400 bp longer), with 1 % substitutions."""
    n = codes.size // _TANDEM_SPACING_BP
    unit = 1 + draws.choose([5, 8, 3, 4, 1, 1], n)
    lengths = draws.between(12, 80, n) + np.where(draws.uniform(n) < 0.02, 400, 0)
    units = draws.below(4, 6 * n).reshape(n, 6).astype(np.uint8)
    starts = draws.below(codes.size - 600, n)
    offset = _offsets(lengths)
    row = np.repeat(np.arange(n), lengths)
    bases = units[row, offset % unit[row]]
    return _lay(codes, starts[row] + offset, _substitute(bases, np.full(bases.size, 0.01), draws))


def _insert_satellite(codes: Codes, where: Span, draws: Draws) -> Mask:
    """Fill the interval ``where`` with repeats of twelve 171 bp monomers, like centromeric alpha satellite."""
    start, end = where
    monomer = draws.below(4, _MONOMER_BP).astype(np.uint8)
    block = _substitute(np.tile(monomer, 12), np.full(12 * _MONOMER_BP, 0.25), draws)
    array = np.resize(block, end - start)
    at = np.arange(start, end, dtype=np.int64)
    return _lay(codes, at, _substitute(array, np.full(array.size, 0.02), draws))


def _lay(codes: Codes, at: NDArray[np.int64], bases: Codes) -> Mask:
    """Write bases into ``codes`` in place, and return the mask of the positions written."""
    codes[at] = bases
    mask = np.zeros(codes.size, dtype=np.bool_)
    mask[at] = True
    return mask


def _place_islands(plan: ContigPlan) -> Mask:
    """Return the mask of CpG islands: one at the 5' end of each gene, and others at random places."""
    draws = Draws(plan.number, 1)
    count = plan.length // 60_000
    places = [int(x) for x in draws.below(plan.length - 2_000, count)]
    places += [gene.start + 4_000 if gene.strand == "+" else gene.end - 5_000 for gene in plan.genes]
    mask = np.zeros(plan.length, dtype=np.bool_)
    for start, size in zip(places, draws.between(600, 1_500, len(places)), strict=True):
        mask[start : start + int(size)] = True
    return mask


def _draw_bases(plan: ContigPlan, islands: Mask) -> Codes:
    draws = Draws(plan.number, 2)
    count = plan.length // 40_000
    lengths = draws.between(40_000, 300_000, count)
    levels = np.array([level for level, _ in _ISOCHORES])[draws.choose([weight for _, weight in _ISOCHORES], count)]
    gc = np.repeat(levels, lengths)[: plan.length] / 1000.0
    gc[islands] = 0.66
    u = draws.uniform(plan.length)
    codes = (u >= (1.0 - gc) / 2).astype(np.uint8)
    codes += u >= 0.5
    codes += u >= 0.5 + gc / 2
    return codes


def _deplete_cpg(codes: Codes, islands: Mask, draws: Draws) -> None:
    """Deaminate about 80 % of the CpG outside islands in place: C becomes T on one of the two strands."""
    at = np.flatnonzero((codes[:-1] == 1) & (codes[1:] == 2) & ~islands[:-1])
    at = at[draws.uniform(at.size) < _DEAMINATED]
    forward = draws.uniform(at.size) < 0.5
    codes[at[forward]] = 3
    codes[at[~forward] + 1] = 0


def _copy_segment(contigs: Mapping[str, SimulatedContig], number: int) -> None:
    segment = SEGMENTS[number]
    source, target = contigs[segment.source], contigs[segment.target]
    origin = slice(segment.source_start, segment.source_start + segment.size_bp)
    place = slice(segment.target_start, segment.target_start + segment.size_bp)
    codes = source.codes[origin]
    step = -1 if segment.reverse else 1
    codes = (3 - codes)[::-1] if segment.reverse else codes
    rates = np.full(segment.size_bp, segment.per_mille / 1000.0)
    target.codes[place] = _substitute(codes, rates, Draws(99, number))
    target.repeat[place] = source.repeat[origin][::step]
    target.low_complexity[place] = source.low_complexity[origin][::step]


def _open_gaps(contig: SimulatedContig, plan: ContigPlan) -> None:
    for start, end in plan.gaps:
        contig.codes[start:end] = UNKNOWN
        for mask in (contig.repeat, contig.low_complexity, contig.duplicated):
            mask[start:end] = False
        contig.excluded[max(0, start - 500) : end + 500] = True


def _simulate_mitochondrion() -> SimulatedContig:
    """Return chrM: 44 % G+C, few G on the light strand, two C stretches and one N, like human mitochondrial DNA."""
    draws = Draws(CHRM_NUMBER, 2)
    codes = draws.choose([31, 31, 13, 25], CHRM_LENGTH).astype(np.uint8)
    for start, end in ((302, 315), (16_183, 16_193)):
        codes[start:end] = 1
        codes[start + 7] = 3
    codes[CHRM_UNKNOWN] = UNKNOWN
    genes = tuple(Gene("chrM", plan, (), np.zeros(0, dtype=np.int64)) for plan in CHRM_GENES)
    masks = [np.zeros(CHRM_LENGTH, dtype=np.bool_) for _ in range(4)]
    return SimulatedContig("chrM", codes, masks[0], masks[1], masks[2], masks[3], genes)


@dataclass(frozen=True, slots=True)
class Transcript:
    """A spliced transcript.

    ``codes`` are its base codes from 5' to 3', uint8, shape (bases,). ``span`` is its 0-based half-open interval on the
    contig, introns included. ``junctions`` are the offsets in ``codes`` where introns were removed.
    """

    codes: Codes
    span: Span
    junctions: tuple[int, ...]


def read_sense(contig: SimulatedContig, span: Span, strand: str) -> Codes:
    """Return the base codes of a 0-based half-open interval in the orientation of a strand; code 4 (N) stays 4."""
    codes = contig.codes[slice(*span)]
    if strand == "+":
        return codes
    return np.where(codes > 3, codes, 3 - codes)[::-1].astype(np.uint8)


def splice(contig: SimulatedContig, gene: Gene, exons: Sequence[int], utr5_bp: int, utr3_bp: int) -> Transcript:
    """Return the transcript of ascending exon numbers, in the order of transcription, with untranslated ends."""
    start, end = gene.span
    forward = gene.plan.strand == "+"
    edges = [(a - start, b - start) if forward else (end - b, end - a) for a, b in gene.exons][:: 1 if forward else -1]
    chosen = [edges[number] for number in exons]
    chosen[0] = (chosen[0][0] - utr5_bp, chosen[0][1])
    chosen[-1] = (chosen[-1][0], chosen[-1][1] + utr3_bp)
    sense = read_sense(contig, gene.span, gene.plan.strand)
    ends = np.cumsum([b - a for a, b in chosen])
    first, last = chosen[0][0], chosen[-1][1]
    return Transcript(
        np.concatenate([sense[a:b] for a, b in chosen]),
        (start + first, start + last) if forward else (end - last, end - first),
        tuple(int(at) for at in ends[:-1]),
    )
