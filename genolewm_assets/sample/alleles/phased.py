"""Phased genotypes of simulated people at the alleles of a part of a contig, as VCF text.

A copy of a chromosome carries at most one haplotype of each cluster of common alleles, and all alleles of it. Added on
purpose: common alleles that the panel lacks, genotypes without phase, missing genotypes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.sample.alleles.population import Counts
from genolewm_assets.sample.alleles.sites import Sites
from genolewm_assets.sample.genome import Draws, SimulatedContig

I64 = NDArray[np.int64]
Bools = NDArray[np.bool_]
_PEOPLE = 60
_ABSENT_SHARE = 0.08
#: Shares of genotypes that are missing, and of those with two different copies that have no phase.
_MISSING_SHARE, _UNPHASED_SHARE = 0.004, 0.01


def phased_vcf(contig: SimulatedContig, sites: Sites, counts: Counts, span: tuple[int, int], *, key: int) -> bytes:
    """Return the VCF of all alleles in ``span``, 0-based half-open, that somebody of the panel carries."""
    draws = Draws(key, 60)
    start, end = (int(np.searchsorted(sites.pos, at + 1)) for at in span)
    rows = np.arange(start, end)
    rows = rows[draws.uniform(rows.size) >= _ABSENT_SHARE]
    carried = _carried(sites.background[rows], counts.af[rows], draws)
    seen = carried.any(axis=1)
    lines = _header(contig)
    for row, copies in zip(rows[seen].tolist(), carried[seen], strict=True):
        allele, n = sites.alleles[row], int(copies.sum())
        info = f"AC={n};AN={copies.size};AF={n / copies.size:.5e}"
        genotypes = "\t".join(_genotypes(copies.reshape(-1, 2), draws))
        head = (allele.chrom, str(allele.pos), ".", allele.ref, allele.alt, ".", "PASS", info, "GT")
        lines.append("\t".join((*head, genotypes)))
    return ("\n".join(lines) + "\n").encode("ascii")


def _carried(background: I64, af: NDArray[np.float64], draws: Draws) -> Bools:
    """Return which copies carry each allele: bool, shape (alleles, copies); two haplotypes of a cluster exclude."""
    shares = dict[int, float]()
    for haplotype, frequency in zip(background.tolist(), af.tolist(), strict=True):
        shares[haplotype] = max(shares.get(haplotype, 0.0), frequency)
    carriers = dict[int, Bools]()
    for haplotype, share in sorted(shares.items()):
        free = ~carriers.get(haplotype - haplotype % 2, np.zeros(2 * _PEOPLE, np.bool_))
        taken = shares.get(haplotype - 1, 0.0) if haplotype % 2 else 0.0
        drawn = draws.uniform(2 * _PEOPLE) < share / max(1.0 - taken, share, 1e-9)
        carriers[haplotype] = np.asarray(drawn & free, dtype=np.bool_)
    return np.array([carriers[haplotype] for haplotype in background.tolist()]).reshape(len(background), -1)


def _genotypes(copies: Bools, draws: Draws) -> list[str]:
    missing = draws.uniform(len(copies)) < _MISSING_SHARE
    unphased = (copies[:, 0] != copies[:, 1]) & (draws.uniform(len(copies)) < _UNPHASED_SHARE)
    return [
        ".|." if gone else "0/1" if loose else f"{int(first)}|{int(second)}"
        for (first, second), gone, loose in zip(copies.tolist(), missing.tolist(), unphased.tolist(), strict=True)
    ]


def _header(contig: SimulatedContig) -> list[str]:
    names = "\t".join(f"SIMP{number:03d}" for number in range(1, _PEOPLE + 1))
    return [
        "##fileformat=VCFv4.2",
        "##source=simulated by genolewm_assets.sample in the layout of a phased panel; no real person or genotype",
        "##reference=simulated, not GRCh38",
        '##FILTER=<ID=PASS,Description="All filters passed">',
        '##INFO=<ID=AC,Number=A,Type=Integer,Description="Alternate allele count">',
        '##INFO=<ID=AN,Number=1,Type=Integer,Description="Total number of alleles">',
        '##INFO=<ID=AF,Number=A,Type=Float,Description="Alternate allele frequency">',
        '##FORMAT=<ID=GT,Number=1,Type=String,Description="Phased genotype">',
        f"##contig=<ID={contig.name},length={contig.codes.size}>",
        f"#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\tFORMAT\t{names}",
    ]
