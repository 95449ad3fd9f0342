"""Normalised alleles of a simulated contig: clusters of common alleles, and many rare ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.genome import Variant, normalise
from genolewm_assets.sample.genome import UNKNOWN, Draws, SimulatedContig

I64 = NDArray[np.int64]
_INDEL_SHARE = 0.12
_LONGEST_INDEL_BP = 20
_CLUSTER_SPAN_BP = 900
_EDGE_BP = 64
_TRANSITION = 2  # with A 0, C 1, G 2, T 3, XOR 2 gives the transition, XOR 1 and 3 the transversions
_LETTERS = "ACGT"


@dataclass(frozen=True, slots=True)
class Sites:
    """Alleles of a contig, sorted by (pos, ref, alt) and unique, and the number of the haplotype that has each.

    The common alleles of a cluster are on two of the first ``n_common`` haplotypes; each rare allele has its own.
    """

    alleles: tuple[Variant, ...]
    background: I64
    n_common: int
    n_backgrounds: int

    @property
    def pos(self) -> I64:
        """1-based positions as in VCF, int64, shape (alleles,)."""
        return np.array([allele.pos for allele in self.alleles], dtype=np.int64)


def simulate_sites(contig: SimulatedContig, *, clusters: int, rare: int, key: int) -> Sites:
    """Return clusters of 1-9 common alleles within 900 bp of a contig, and about ``rare`` rare alleles."""
    draws = Draws(key, 10)
    callable_bases = _callable_positions(contig)
    common_at, common_background = _cluster_positions(callable_bases, clusters, draws)
    rare_at = _mutable_positions(contig, callable_bases, rare, draws)
    at = np.concatenate([common_at, rare_at])
    n_common = 2 * clusters
    background = np.concatenate([common_background, n_common + np.arange(rare_at.size)])
    alleles = _mutate(contig, at, draws)
    first: dict[tuple[int, str, str], tuple[Variant, int]] = {}
    for allele, carrier in zip(alleles, background.tolist(), strict=True):
        first.setdefault((allele.pos, allele.ref, allele.alt), (allele, carrier))
    ordered = [first[k] for k in sorted(first)]
    carriers = np.array([carrier for _, carrier in ordered], dtype=np.int64)
    return Sites(tuple(allele for allele, _ in ordered), carriers, n_common, n_common + rare_at.size)


def _callable_positions(contig: SimulatedContig) -> I64:
    """Return the 0-based positions outside excluded regions and more than 64 bases from gaps and contig ends."""
    unknown = np.concatenate([[True], contig.codes == UNKNOWN, [True]])
    total = np.concatenate([[0], np.cumsum(unknown)])
    at = np.arange(contig.codes.size, dtype=np.int64)
    low = np.maximum(at + 1 - _EDGE_BP, 0)
    high = np.minimum(at + 2 + _EDGE_BP, unknown.size)
    clear = total[high] == total[low]
    return np.flatnonzero(clear & ~contig.excluded).astype(np.int64)


def _cluster_positions(callable_bases: I64, clusters: int, draws: Draws) -> tuple[I64, I64]:
    """Return the 0-based positions of 1-9 alleles within 900 bp after each centre, and the haplotype of each."""
    centres = np.sort(callable_bases[draws.below(callable_bases.size, clusters)])
    sizes = 1 + draws.choose([2, 4, 5, 5, 4, 3, 2, 1, 1], clusters)
    cluster = np.repeat(np.arange(clusters), sizes)
    at = centres[cluster] + draws.below(_CLUSTER_SPAN_BP, cluster.size)
    carrier = 2 * cluster + draws.below(2, cluster.size)
    inside = np.isin(at, callable_bases, kind="table")
    return at[inside], carrier[inside]


def _mutable_positions(contig: SimulatedContig, callable_bases: I64, n: int, draws: Draws) -> I64:
    """Draw up to ``n`` 0-based positions; a base of a CpG is ten times as likely as another base."""
    candidates = callable_bases[draws.below(callable_bases.size, 10 * n)]
    cpg = _is_cpg(contig, candidates)
    keep = cpg | (draws.uniform(candidates.size) < 0.1)
    return candidates[keep][:n]


def _is_cpg(contig: SimulatedContig, at: I64) -> NDArray[np.bool_]:
    codes = contig.codes
    cytosine, guanine = codes[at] == 1, codes[at] == 2
    return np.asarray((cytosine & (codes[at + 1] == 2)) | (guanine & (codes[at - 1] == 1)), dtype=np.bool_)


def _mutate(contig: SimulatedContig, at: I64, draws: Draws) -> list[Variant]:
    codes = contig.codes[at].astype(np.int64)
    transition = draws.uniform(at.size) < np.where(_is_cpg(contig, at), 0.92, 0.66)
    alt = codes ^ np.where(transition, _TRANSITION, 1 + 2 * draws.below(2, at.size))
    indel = draws.uniform(at.size) < _INDEL_SHARE
    lengths = 1 + draws.choose([1 << (_LONGEST_INDEL_BP - i) for i in range(_LONGEST_INDEL_BP)], at.size)
    kind = draws.below(4, at.size)
    novel = draws.below(4, at.size * _LONGEST_INDEL_BP).reshape(at.size, _LONGEST_INDEL_BP)
    sequence = contig.sequence
    text = sequence.decode("ascii")
    alleles = []
    for i, start in enumerate(at.tolist()):
        if not indel[i]:
            alleles.append(Variant(contig.name, start + 1, text[start], _LETTERS[alt[i]]))
            continue
        after = text[start + 1 : start + 1 + int(lengths[i])]
        if kind[i] < 2:
            ref, new = text[start] + after, text[start]
        elif kind[i] == 2:  # a tandem duplication
            ref, new = text[start], text[start] + after
        else:
            ref, new = text[start], text[start] + "".join(_LETTERS[c] for c in novel[i, : lengths[i]])
        alleles.append(normalise(Variant(contig.name, start + 1, ref, new), sequence))
    return alleles
