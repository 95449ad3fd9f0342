"""Allele counts of a simulated population: neutral frequency spectrum, drift between groups, haplotypes, missing calls.

All alleles of a haplotype have nearly its frequency in every group, as linked alleles do in a sites-only VCF.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genolewm_assets.sample.alleles.sites import Sites
from genolewm_assets.sample.genome import Draws

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

#: Chromosomes of the ancestral sample; frequencies are drawn from its site frequency spectrum, weight 1/k for k copies.
_CHROMOSOMES = 400_000
_COMMON_FROM = 4_000
_LOW_CALL_SHARE = 0.07
_FULL_CALL_SHARE = 0.15
_OUTSIDE_SHARE = 0.6
#: Drift of each group from the ancestral frequency, as Wright's F_ST.
_DRIFT = {"afr": 0.12, "ami": 0.2, "amr": 0.06, "asj": 0.1, "eas": 0.14, "fin": 0.08, "mid": 0.05, "nfe": 0.03}
_DRIFT_ELSE = 0.05


@dataclass(frozen=True, slots=True)
class Callset:
    """Genetic ancestry groups of a call set, their numbers of individuals, and FILTER values with weights, PASS first.

    The numbers of individuals are even, so that half of each group's alleles belong to a whole number of individuals.
    ``genomes`` are those of a joint call set whose genome was sequenced; where exomes are not called, only they have
    genotypes.
    """

    groups: tuple[str, ...]
    individuals: tuple[int, ...]
    filters: tuple[tuple[str, int], ...]
    genomes: tuple[int, ...] = ()

    @property
    def most_alleles(self) -> int:
        """Largest possible AN: two alleles per individual."""
        return 2 * sum(self.individuals)


_GENOME_FILTERS = (("PASS", 880), ("AC0", 30), ("AS_VQSR", 65), ("InbreedingCoeff", 8), ("AC0;AS_VQSR", 17))
_JOINT_FILTERS = (("PASS", 860), ("EXOMES_FILTERED", 50), ("GENOMES_FILTERED", 60), ("BOTH_FILTERED", 30))
_V3_GROUPS = ("afr", "ami", "amr", "asj", "eas", "fin", "mid", "nfe", "oth", "sas")
_V4_GROUPS = ("afr", "ami", "amr", "asj", "eas", "fin", "mid", "nfe", "remaining", "sas")

GENOMES_V3 = Callset(_V3_GROUPS, (20_744, 456, 7_646, 1_736, 2_604, 5_316, 158, 34_028, 1_046, 2_418), _GENOME_FILTERS)
GENOMES_V4 = Callset(_V4_GROUPS, (20_804, 456, 7_656, 1_736, 2_598, 5_316, 158, 34_024, 1_060, 2_416), _GENOME_FILTERS)
JOINT_V4 = Callset(
    _V4_GROUPS,
    (37_544, 456, 30_018, 14_804, 22_448, 32_026, 3_030, 590_030, 31_256, 45_546),
    _JOINT_FILTERS,
    GENOMES_V4.individuals,
)


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts per allele.

    ``ac``, ``an`` and ``nhomalt`` are int64, shape (groups, alleles). ``borders`` are the indices of four alleles at
    thresholds: AF exactly 1 %, one copy less, AN exactly half of the largest possible (of a joint call set in both
    assays), just less. ``outside`` tells which alleles only genomes have.
    """

    callset: Callset
    ac: I64
    an: I64
    nhomalt: I64
    filters: tuple[str, ...]
    borders: tuple[int, ...]
    outside: NDArray[np.bool_]

    @property
    def af(self) -> F64:
        """Allele frequency over all groups, float64, shape (alleles,)."""
        return np.asarray(self.ac.sum(axis=0) / self.an.sum(axis=0), dtype=np.float64)

    def well_called(self) -> NDArray[np.bool_]:
        """Return the alleles with PASS, AF > 2 % and AN > 80 % of the largest possible, as bool, shape (alleles,)."""
        passing = np.array([f == "PASS" for f in self.filters])
        most = np.where(self.outside, 2 * sum(self.callset.genomes), self.callset.most_alleles)
        mask = passing & (self.af > 0.02) & (self.an.sum(axis=0) > 0.8 * most)
        mask[list(self.borders)] = False
        return np.asarray(mask, dtype=np.bool_)


def simulate_counts(sites: Sites, head: I64, callset: Callset, *, key: int) -> Counts:
    """Draw the counts of every allele.

    ``head`` is the index of the first allele of the allele's record, shape (alleles,). The alleles of a record share AN
    and FILTER, and the sum of their AC is at most AN.
    """
    draws = Draws(key, 20)
    n = len(sites.alleles)
    # Most of a genome is outside of exome calling.
    outside = (Draws(key, 21).uniform(n) < _OUTSIDE_SHARE)[head] & bool(callset.genomes)
    an = _allele_numbers(outside, callset, draws)[:, head]
    frequency = _group_frequencies(sites, callset, draws)[:, sites.background]
    frequency *= 0.92 + 0.08 * draws.uniform(n)
    ac = (an * frequency + draws.uniform(an.size).reshape(an.shape)).astype(np.int64)
    second = np.flatnonzero(head != np.arange(n))
    ac[:, second] = np.minimum(ac[:, second], an[:, second] - ac[:, head[second]])
    names = [name for name, _ in callset.filters]
    drawn = draws.choose([weight for _, weight in callset.filters], n)
    drawn[second] = 0
    drawn[head[second]] = 0
    # An allele with AC 0 has one copy, in a group drawn by its number of individuals.
    unseen = np.flatnonzero(ac.sum(axis=0) == 0)
    ac[draws.choose(callset.individuals, unseen.size), unseen] = 1
    ac[:, [names[f].startswith("AC0") for f in drawn.tolist()]] = 0
    borders = _set_borders(ac, an, sites, head, callset)
    drawn[list(borders)] = 0
    outside[list(borders)] = False
    if callset.genomes:
        drawn[outside & (drawn != 0)] = names.index("GENOMES_FILTERED")
    expected = ac * ac / (2.0 * an) + draws.uniform(ac.size).reshape(ac.shape)
    nhomalt = np.minimum(expected.astype(np.int64), ac // 2)
    return Counts(callset, ac, an, nhomalt, tuple(names[f] for f in drawn.tolist()), borders, outside)


def _allele_numbers(outside: NDArray[np.bool_], callset: Callset, draws: Draws) -> I64:
    """Return AN, int64, shape (groups, alleles): 90-100 % of individuals called, all at 15 %, under half at 7 %."""
    n = outside.size
    kind = draws.uniform(n)
    rate = 0.9 + 0.1 * draws.uniform(n)
    low = 0.03 + 0.44 * draws.uniform(n)
    rate = np.where(kind < _LOW_CALL_SHARE, low, np.where(kind > 1 - _FULL_CALL_SHARE, 1.0, rate))
    inside, genomes = (np.array(each, dtype=np.float64) for each in (callset.individuals, callset.genomes))
    people = inside[:, None] * rate
    if genomes.size:
        people[:, outside] = (genomes[:, None] * rate)[:, outside]
    return 2 * np.maximum(people.astype(np.int64), 1)


def _group_frequencies(sites: Sites, callset: Callset, draws: Draws) -> F64:
    """Return the frequency of each haplotype in each group, float64, shape (groups, backgrounds)."""
    n_rare = sites.n_backgrounds - sites.n_common
    common = _COMMON_FROM + spectrum(_COMMON_FROM, _CHROMOSOMES * 19 // 20, sites.n_common, draws)
    copies = np.concatenate([common, 1 + spectrum(1, _COMMON_FROM * 3 // 4, n_rare, draws)])
    ancestral = (copies - draws.uniform(copies.size)) / _CHROMOSOMES
    frequencies = np.empty((len(callset.groups), copies.size))
    for row, group in enumerate(callset.groups):
        spread = np.sqrt(_DRIFT.get(group, _DRIFT_ELSE) * ancestral * (1.0 - ancestral))
        # The drift of a rare allele is limited by its frequency; otherwise clipping at 0 would raise its mean.
        spread = np.minimum(spread, 1.5 * ancestral)
        frequencies[row] = np.clip(ancestral + spread * draws.normal(copies.size), 0.0, 0.98)
    return frequencies


def spectrum(low: int, high: int, n: int, draws: Draws) -> I64:
    """Draw ``n`` values of k - low for k in [low, high) with weight 1/k: the neutral spectrum (Watterson 1975)."""
    return draws.choose(10**12 // np.arange(low, high, dtype=np.int64), n)


def _set_borders(ac: I64, an: I64, sites: Sites, head: I64, callset: Callset) -> tuple[int, ...]:
    """Set four common SNVs to the thresholds of AF and AN in place; return their indices, as in ``Counts.borders``."""
    alone = np.bincount(head, minlength=head.size) == 1
    candidates = [
        i for i in np.flatnonzero(alone & (sites.background < sites.n_common)).tolist() if sites.alleles[i].is_snv
    ]
    exact, below, half, less = (candidates[len(candidates) * part // 5] for part in (1, 2, 3, 4))
    rest, largest = callset.groups.index("sas"), callset.groups.index("nfe")
    people = np.array(callset.individuals, dtype=np.int64)
    for i in (exact, below):
        an[:, i] = 2 * people
        an[rest, i] -= int(an[:, i].sum()) % 200
        ac[:, i] = an[:, i] // 100
        ac[largest, i] += int(an[:, i].sum()) // 100 - int(ac[:, i].sum())
    ac[largest, below] -= 1
    for i in (half, less):
        an[:, i] = people
    # Of a joint call set, two less in each assay.
    an[largest, less] -= 4 if callset.genomes else 2
    ac[:, [half, less]] = an[:, [half, less]] // 5
    return exact, below, half, less
