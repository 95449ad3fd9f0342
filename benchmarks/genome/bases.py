"""Bases of a generated genome: random, with gaps and soft-masked copies of repeat families, block by block.

A contig is a file of one byte a base, which the writers of variants and corpus map, and a record of the FASTA.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.genome.shapes import Shape, Span
from benchmarks.vcf.vcf_output import open_bgzf

Bases = NDArray[np.uint8]
SEED = 36
#: Four bases for each value of a byte.
_FOUR = np.frombuffer(b"ACGT", np.uint8)[np.arange(256)[:, None] >> np.array([0, 2, 4, 6]) & 3]
_COMPLEMENT = np.frombuffer(bytes.maketrans(b"ACGT", b"TGCA"), np.uint8)
_LINE_BP = 80
_BLOCK_BP = 50_000 * _LINE_BP
_LOWER, _N = 0x20, ord("N")
#: Kinds of repeats: bases of the genome for each family (0: one family in all), length of the consensus, share of the
#: genome, longest copy, divergence of copies. So one family has ever more copies in larger genomes, others have not.
_FAMILIES = (
    (0, 300, 0.1, 300, 0.12),
    (2_000_000, 6_000, 0.27, 1_500, 0.15),
    (2_000_000, 2_400, 0.03, 2_400, 0.05),
)


@dataclass(frozen=True, slots=True)
class Genome:
    """Bases of each contig as a mapped file, soft-masked, and its gaps."""

    bases: Mapping[str, Bases]
    gaps: Mapping[str, tuple[Span, ...]]

    def places(self, rng: np.random.Generator, size: int) -> Iterator[tuple[str, int]]:
        """Yield random contigs and starts of ``size`` bases without a gap, without end."""
        names = list(self.bases)
        lengths = np.array([len(self.bases[name]) for name in names])
        for _ in count():
            name = names[int(rng.choice(len(names), p=lengths / lengths.sum()))]
            start = int(rng.integers(0, len(self.bases[name]) - size))
            if all(start + size <= a or b <= start for a, b in self.gaps[name]):
                yield name, start

    def cut(self, contig: str, start: int, size: int) -> Bases:
        """Return upper-case bases, a copy."""
        return self.bases[contig][start : start + size] & ~np.uint8(_LOWER)


def random_bases(rng: np.random.Generator, size: int) -> Bases:
    """Return ``size`` random upper-case bases."""
    return _FOUR[np.frombuffer(rng.bytes(size // 4 + 1), np.uint8)].reshape(-1)[:size]


def mutated(rng: np.random.Generator, bases: Bases, rate: float) -> Bases:
    """Return the bases with ``rate`` of them drawn anew."""
    at = rng.integers(0, bases.size, int(bases.size * rate))
    bases[at] = random_bases(rng, at.size)
    return bases


def reverse_complement(bases: Bases) -> Bases:
    """Return upper-case bases of the other strand."""
    return _COMPLEMENT[bases][::-1]


def write_genome(folder: Path, shape: Shape, fixed: Mapping[str, tuple[NDArray[np.int64], Bases]]) -> dict[str, str]:
    """Write ``genome.fa.gz`` and ``bases/CONTIG``; return the MD5 of each contig's upper-case bases.

    ``fixed`` are bases by contig: their sorted 0-based positions, and upper-case letters.
    """
    (folder / "bases").mkdir(parents=True, exist_ok=True)
    found = {}
    families = _consensus(shape.total_bp)
    with open_bgzf(folder / "genome.fa.gz") as fasta:
        for number, (name, length) in enumerate(shape.contigs.items()):
            fasta.write(f">{name}\n".encode())
            md5 = hashlib.md5(usedforsecurity=False)
            with (folder / "bases" / name).open("wb") as raw:
                for start in range(0, length, _BLOCK_BP):
                    rng = np.random.default_rng([SEED, number, start])
                    block = _block(rng, min(_BLOCK_BP, length - start), families)
                    _fix(block, start, shape.gaps[name], fixed.get(name))
                    raw.write(block.tobytes())
                    md5.update((block & ~np.uint8(_LOWER)).tobytes())
                    fasta.write(_lines(block))
            found[name] = md5.hexdigest()
    return found


def open_genome(folder: Path, shape: Shape) -> Genome:
    """Map the files of :func:`write_genome`."""
    return Genome({name: np.memmap(folder / "bases" / name, np.uint8, "r") for name in shape.contigs}, shape.gaps)


def _consensus(total_bp: int) -> list[Bases]:
    """Return for each kind of repeat the consensus of all its families, each followed by its reverse complement."""
    rng = np.random.default_rng([SEED, 1 << 20])
    made = []
    for bp, size, *_ in _FAMILIES:
        families = [random_bases(rng, size) for _ in range(max(1, total_bp // bp) if bp else 1)]
        made.append(np.concatenate([strand for each in families for strand in (each, reverse_complement(each))]))
    return made


def _block(rng: np.random.Generator, size: int, families: list[Bases]) -> Bases:
    """Return random bases with copies of repeats over a part of them; copies may overlap."""
    block = random_bases(rng, size).copy()
    for (_, consensus_bp, share, longest, divergence), consensus in zip(_FAMILIES, families, strict=True):
        lengths = rng.integers(longest // 2, longest, int(size * share / (0.75 * longest)), endpoint=True)
        lengths = lengths[lengths < size]
        starts = rng.integers(0, size - lengths)
        sources = rng.integers(0, consensus.size // consensus_bp, lengths.size) * consensus_bp
        sources += rng.integers(0, consensus_bp - lengths, endpoint=True)
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        copies = consensus[np.repeat(sources, lengths) + within]
        block[np.repeat(starts, lengths) + within] = mutated(rng, copies, divergence) | _LOWER
    return block


def _fix(block: Bases, start: int, gaps: tuple[Span, ...], fixed: tuple[NDArray[np.int64], Bases] | None) -> None:
    """Set given bases, which are not soft-masked, then gaps."""
    if fixed is not None:
        first, last = np.searchsorted(fixed[0], (start, start + block.size))
        block[fixed[0][first:last] - start] = fixed[1][first:last]
    for a, b in gaps:
        block[max(0, a - start) : max(0, b - start)] = _N


def _lines(block: Bases) -> bytes:
    whole = block.size // _LINE_BP
    lines = np.full((whole, _LINE_BP + 1), ord("\n"), np.uint8)
    lines[:, :_LINE_BP] = block[: whole * _LINE_BP].reshape(whole, _LINE_BP)
    rest = block[whole * _LINE_BP :].tobytes()
    return lines.tobytes() + (rest + b"\n" if rest else b"")
