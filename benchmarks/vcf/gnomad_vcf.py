"""Generate a gnomAD-like VCF: one contig, one allele in twenty common, INFO wide (4 kB) or slim (0.5 kB).

Common alleles, which a shard may keep, and records with two ALTs have their own INFO texts. Rare alleles share 8,192
INFO texts, which are far larger than the 32 kB window of deflate, so that sharing does not affect the compressed size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.vcf.gnomad_info import draw_info, render
from benchmarks.vcf.simulated_genome import (
    Site,
    deletion,
    indel_lengths,
    insertion,
    other_base,
    snv,
    spread_positions,
)
from benchmarks.vcf.vcf_output import open_bgzf
from genolewm_assets.genome import GRCH38, Contig

CONTIG = Contig("chr21", GRCH38["chr21"].length, aliases=("21",))
_COMMON, _TWO_ALTS = 0.05, 0.02
_DELETIONS, _INSERTIONS = 0.035, 0.025
_FAILED = (("PASS", 0.87), ("AS_VQSR", 0.07), ("AC0", 0.05), ("AC0;AS_VQSR", 0.006), ("InbreedingCoeff", 0.004))
_FILTERS = {
    "PASS": "All filters passed",
    "AC0": "Allele count is zero after filtering out low-confidence genotypes",
    "AS_VQSR": "Failed VQSR filtering thresholds",
    "InbreedingCoeff": "Inbreeding coefficient < -0.3",
}
_POOL = 8_192
_BATCH = 20_000


@dataclass(frozen=True, slots=True)
class GnomadShape:
    """Shape of a generated file: number of records, INFO wide (about 4 kB) or slim (about 0.5 kB), seed, contig."""

    records: int
    wide: bool = True
    seed: int = 2
    contig: Contig = CONTIG


def write_gnomad_vcf(path: Path, bases: bytes, shape: GnomadShape) -> None:
    """Write a bgzipped VCF over the upper-case bases of its contig; equal arguments give equal text."""
    rng = np.random.default_rng([shape.seed, shape.records])
    pos = spread_positions(rng, shape.contig, shape.records, shared=0.04)
    pool = _rare_texts(rng, wide=shape.wide)
    with open_bgzf(path) as target:
        target.write(_header(shape).encode())
        for start in range(0, shape.records, _BATCH):
            lines = _lines(rng, bases, pos[start : start + _BATCH], pool, shape)
            target.write("".join(lines).encode())


def _header(shape: GnomadShape) -> str:
    one = np.ones(1, dtype=np.int64)
    fields = draw_info(np.random.default_rng(0), np.ones(1) / 2, one, wide=shape.wide)
    lines = [
        "##fileformat=VCFv4.2",
        "##hailversion=0.2.127-bb535cd096c5",
        *(f'##FILTER=<ID={name},Description="{text}">' for name, text in _FILTERS.items()),
        *(
            f'##INFO=<ID={each.name},Number={each.number},Type={each.type},Description="Simulated {each.name}">'
            for each in fields
        ),
        *(f"##contig=<ID={each.name},length={each.length},assembly=gnomAD_GRCh38>" for each in GRCH38),
        "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO",
    ]
    return "\n".join(lines) + "\n"


def _rare_frequencies(rng: np.random.Generator, count: int) -> np.ndarray:
    return 10 ** rng.uniform(-5.2, -2.3, count)


def _rare_texts(rng: np.random.Generator, *, wide: bool) -> list[str]:
    return render(draw_info(rng, _rare_frequencies(rng, _POOL), np.ones(_POOL, dtype=np.int64), wide=wide))


def _lines(
    rng: np.random.Generator, bases: bytes, pos: np.ndarray, pool: list[str], shape: GnomadShape
) -> Iterator[str]:
    count = len(pos)
    repeated = np.zeros(count, dtype=bool)
    repeated[1:] = pos[1:] == pos[:-1]
    alts = np.where((rng.random(count) < _TWO_ALTS) & ~repeated & ~np.roll(repeated, -1), 2, 1)
    common = rng.random(count) < _COMMON
    infos = [pool[index] for index in rng.integers(0, len(pool), count).tolist()]
    own = np.flatnonzero(common | (alts == 2))
    frequency = np.where(common[own], 10 ** rng.uniform(-1.9, -0.02, len(own)), _rare_frequencies(rng, len(own)))
    for index, text in zip(own.tolist(), render(draw_info(rng, frequency, alts[own], wide=shape.wide)), strict=True):
        infos[index] = text
    names, shares = zip(*_FAILED, strict=True)
    filters = [names[index] for index in rng.choice(len(names), count, p=shares).tolist()]
    rsids = [f"rs{number}" if number % 10 else "." for number in rng.integers(10**5, 2 * 10**9, count).tolist()]
    rows = zip(_sites(rng, bases, pos, alts), rsids, filters, infos, strict=True)
    for site, rsid, verdict, info in rows:
        yield f"{shape.contig.name}\t{site.pos}\t{rsid}\t{site.ref}\t{site.alts}\t.\t{verdict}\t{info}\n"


def _sites(rng: np.random.Generator, bases: bytes, pos: np.ndarray, alts: np.ndarray) -> Iterator[Site]:
    lengths, kinds = indel_lengths(rng, len(pos)), rng.random(len(pos)).tolist()
    for rank, (at, number, kind) in enumerate(zip(pos.tolist(), alts.tolist(), kinds, strict=True)):
        if number == 2:
            first = snv(bases, at, rank)
            yield Site(at, first.ref, f"{first.alts},{other_base(first.ref, rank + 1)}")
        elif kind < _DELETIONS:
            yield deletion(bases, at, lengths[rank])
        elif kind < _DELETIONS + _INSERTIONS:
            yield insertion(bases, at, lengths[rank], rng)
        else:
            yield snv(bases, at, rank)
