"""Small worlds for samplers: contigs full of repeats, windows of either strand, alleles dense, long and held out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from genolewm_assets.edits import AlleleIndex, EditSource, HeldSequences, WindowRecord
from genolewm_assets.genome import Variant, normalise
from genolewm_assets.package_build.rows import context_tables
from genolewm_assets_tests.referees.sampling.plain_windows import SplitWindows
from genolewm_assets_tests.worlds.lewm.stream_world import as_batch, make_window, no_alleles, simulate_reference

CONTIGS = ("chr17", "chr2")
_LENGTH, _MARGIN_BP = 6_000, 256
Allele = tuple[str, int, str, str]


@dataclass(frozen=True)
class SamplerWorld:
    """Windows of a split, and the alleles that its sampler reads."""

    windows: SplitWindows
    real: Mapping[EditSource, AlleleIndex]
    held_out: AlleleIndex
    held_sequences: HeldSequences


def simulate_world(seed: int, *, n_windows: int = 24, window_bp: int = 600, flank_bp: int = 64) -> SamplerWorld:
    """Return windows of which every fourth has no exact placement, and alleles about every twelfth base.

    Some alleles are longer than 16 bases or than the flanks, some disagree with the reference, some are in both
    sources; a third of them and of all possible SNVs are held out. With every third seed it is not known which windows
    spell a held-out allele.
    """
    rng = np.random.default_rng(seed)
    references = {contig: simulate_reference(seed + at, _LENGTH) for at, contig in enumerate(CONTIGS)}
    alleles = [allele for contig, bases in references.items() for allele in _alleles(rng, contig, bases, _LENGTH // 12)]
    keep = rng.random((2, len(alleles))) < 0.6
    held = [allele for allele, draw in zip(alleles, rng.random(len(alleles)), strict=True) if draw < 1 / 3]
    held_snvs = [
        (contig, at + 1, chr(base), "ACGT"["ACGT".index(chr(base)) - 1])
        for contig, bases in references.items()
        for at, base in enumerate(bases)
        if at % 3 == 0
    ]
    shown = [allele for allele in held if agrees(references, allele)][:40]
    contexts = context_tables(_table(shown), references.__getitem__)
    windows = [_window(rng, references, number, window_bp, flank_bp) for number in range(n_windows)]
    held_sequences = HeldSequences([batch for table in contexts for batch in table.to_batches()])
    return SamplerWorld(
        SplitWindows([as_batch(windows)], held_sequences if seed % 3 else None),
        {
            source: AlleleIndex.of(
                _table([one for one, kept in zip(alleles, keep[row], strict=True) if kept], row == 1)
            )
            for row, source in enumerate((EditSource.GNOMAD, EditSource.CLINVAR))
        },
        AlleleIndex.of(_table(held + held_snvs)),
        held_sequences,
    )


def agrees(references: Mapping[str, bytes], allele: Allele) -> bool:
    contig, pos, ref, _ = allele
    return references[contig][pos - 1 : pos - 1 + len(ref)] == ref.encode()


def _window(
    rng: np.random.Generator, references: Mapping[str, bytes], number: int, window_bp: int, flank_bp: int
) -> WindowRecord:
    contig = CONTIGS[int(rng.integers(2))]
    # Few starts, so that windows are visited again.
    start = _MARGIN_BP + 97 * int(rng.integers((_LENGTH - window_bp - 2 * _MARGIN_BP) // 97))
    strand, placed = "+-"[int(rng.integers(2))], number % 4 > 0
    window = make_window(references[contig], start, strand=strand, placed=placed, window_bp=window_bp)
    name = hashlib.sha256(window.sequence.encode()).hexdigest()[:32]
    return replace(
        window,
        window_id=name,
        contig=contig if placed else None,
        left_flank=window.left_flank[_MARGIN_BP - flank_bp :],
        right_flank=window.right_flank[:flank_bp],
    )


def _alleles(rng: np.random.Generator, contig: str, reference: bytes, n: int) -> list[Allele]:
    found: set[Allele] = set()
    while len(found) < n:
        at, sizes = int(rng.integers(1, len(reference) - 120)), rng.geometric(0.3, 2)
        if rng.random() < 0.1:
            sizes = rng.integers(17, 100, 2)
        shape = rng.random()
        ref = reference[at : at + (int(sizes[0]) if shape < 0.5 else 1)].decode()
        if shape < 0.1:  # of another reference
            ref = "".join(rng.choice(list("ACGT"), len(ref)))
        alt = "".join(rng.choice(list("ACGT"), int(sizes[1]) if 0.3 < shape < 0.8 else 1))
        if shape > 0.9:  # a copy of what follows
            alt = ref + reference[at + 1 : at + 1 + int(sizes[1])].decode()
        if ref != alt and agrees({contig: reference}, (contig, at + 1, ref, alt)):
            variant = normalise(Variant(contig, at + 1, ref, alt), reference)
            found.add((contig, variant.pos, variant.ref, variant.alt))
        elif len(ref) == len(alt) == 1 and ref != alt:
            found.add((contig, at + 1, ref, alt))
    return sorted(found)


def _table(alleles: list[Allele], labelled: bool = False) -> pa.Table:
    columns = [list(column) for column in zip(*alleles, strict=True)] if alleles else [[], [], [], []]
    table = pa.table(dict(zip(("chrom", "pos", "ref", "alt"), columns, strict=True)), schema=no_alleles().schema)
    labels = pa.array([["P", "LP", "B"][at % 3] for at in range(len(table))], pa.string())
    return table.append_column("label", labels) if labelled else table
