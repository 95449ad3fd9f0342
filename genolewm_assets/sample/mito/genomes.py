"""Forty simulated mitochondrial genomes, derived from chrM along a tree of descent.

Genomes of a haplogroup share nested substitutions. Genomes also differ in the length of the C stretches, and some have
ambiguity codes at heteroplasmic sites. Haplogroup names look like real ones but have no relation to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from genolewm_assets.sample.genome import UNKNOWN, Draws, SimulatedContig

N_GENOMES = 40
_TREE = N_GENOMES - 1
#: The last genome is the one with this index plus four substitutions.
_NEAR, _NEAR_SUBSTITUTIONS = 7, 4
_KEY = 26
#: Mean number of substitutions on the shared branches from the root to a leaf; each leaf has 6 to 11 of its own.
_SHARED_SUBSTITUTIONS = 30
#: Letters of the six clades; they contain fourteen numbered clades.
_CLADES = "HJTUKL"
_NUMBERED_CLADES = 14
_EDGE_BP = 20
#: 0-based half-open intervals of the indels, which get no substitutions.
_C_STRETCHES = ((295, 320), (16_175, 16_200))
#: 0-based position after which C is inserted (309.1C, 315.1C, 16193.1C), and the percentage of genomes with it.
_INSERTIONS = ((308, 40), (314, 90), (16_192, 10))
_DELETION = range(8_280, 8_289)
#: Indices of genomes with called heteroplasmy; the first two levels of each give ambiguity codes.
HETEROPLASMIC = tuple(range(7))
_LEVELS_PER_MILLE = ((300, 700), (300, 700), (20, 250), (20, 250), (750, 940))
#: Indices of two genomes that have ambiguity codes but are in no heteroplasmy VCF.
_UNCALLED = (10, 11)
AMBIGUITY = {"AG": "R", "CT": "Y", "CG": "S", "AT": "W", "GT": "K", "AC": "M"}
_CODE_FROM, _CODE_UP_TO = 300, 700


@dataclass(frozen=True, slots=True)
class MixedSite:
    """A heteroplasmic substitution: 0-based position on chrM, base that differs from chrM, level in per mille."""

    site: int
    alt: str
    per_mille: int


@dataclass(frozen=True, slots=True)
class MitoGenome:
    """One simulated genome as differences from chrM at 0-based sites; ``inserted`` bases come after their site."""

    name: str
    haplogroup: str
    substituted: Mapping[int, str]
    inserted: Mapping[int, str]
    deleted: frozenset[int]
    mixed: tuple[MixedSite, ...] = field(default=())

    def spell(self, reference: str) -> str:
        """Return the sequence in the rotation and on the strand of chrM, without the N of chrM.

        A heteroplasmic site has an ambiguity code for a level from 0.3 to below 0.7, and the alternate base from 0.7.
        """
        bases = [base if base != "N" else "" for base in reference]
        for site, base in self.substituted.items():
            bases[site] = base
        for mixed in self.mixed:
            own = bases[mixed.site]
            if _CODE_FROM <= mixed.per_mille < _CODE_UP_TO:
                bases[mixed.site] = AMBIGUITY["".join(sorted(own + mixed.alt))]
            elif mixed.per_mille >= _CODE_UP_TO:
                bases[mixed.site] = mixed.alt
        for site in self.deleted:
            bases[site] = ""
        for site, more in self.inserted.items():
            bases[site] += more
        return "".join(bases)


def simulate_mito_genomes(contig: SimulatedContig) -> tuple[MitoGenome, ...]:
    """Return the genomes ``SIMMT001`` to ``SIMMT040``."""
    places = iter(_places(contig))
    reference = contig.sequence.decode("ascii")
    carried, labels, clade = _grow_tree(places)
    changes = Draws(_KEY, 3)
    chosen = {site: _substitute(reference[site], changes) for site in sorted({s for own in carried for s in own})}
    genomes = []
    for leaf in range(_TREE):
        substituted = {site: chosen[site] for site in sorted(carried[leaf])}
        deleted = frozenset(_DELETION) if leaf in clade else frozenset[int]()
        genomes.append(MitoGenome(_name(leaf), labels[leaf], substituted, _insertions(leaf), deleted))
    more = {site: _substitute(reference[site], changes) for site in _take(places, _NEAR_SUBSTITUTIONS)}
    near = genomes[_NEAR]
    genomes.append(replace(near, name=_name(_TREE), substituted={**near.substituted, **more}))
    return tuple(_add_mixed_sites(genome, reference, places) for genome in genomes)


def _name(index: int) -> str:
    return f"SIMMT{index + 1:03d}"


def _places(contig: SimulatedContig) -> Sequence[int]:
    """Return the 0-based sites that may be substituted, in random order."""
    clear = np.convolve(contig.codes == UNKNOWN, np.ones(2 * _EDGE_BP + 1, dtype=np.int64), mode="same") == 0
    clear[:_EDGE_BP] = clear[-_EDGE_BP:] = False
    for start, end in (*_C_STRETCHES, (_DELETION.start - _EDGE_BP, _DELETION.stop + _EDGE_BP)):
        clear[start:end] = False
    order = np.argsort(Draws(_KEY, 1).uniform(clear.size), kind="stable")
    found: list[int] = order[clear[order]].tolist()
    return found


def _take(places: Iterator[int], n: int) -> list[int]:
    return [next(places) for _ in range(n)]


def _substitute(base: str, draws: Draws) -> str:
    """Return another base: the transition nine times in ten, else a transversion."""
    change = 2 if draws.below(10, 1)[0] < 9 else 1 + 2 * int(draws.below(2, 1)[0])
    return "ACGT"["ACGT".index(base) ^ change]


def _grow_tree(places: Iterator[int]) -> tuple[list[set[int]], list[str], tuple[int, ...]]:
    """Join lineages in pairs back to the root (Kingman 1982); every mutation has its own site.

    Returns the substituted sites of each leaf; its haplogroup, a letter for one of six clades and a number for a clade
    inside it; and the leaves of the smallest numbered clade with at least three.
    """
    draws = Draws(_KEY, 2)
    lineages = [(leaf,) for leaf in range(_TREE)]
    carried = [set(_take(places, n)) for n in draws.between(6, 12, _TREE).tolist()]
    numbered, lettered = lineages, lineages
    while (k := len(lineages)) > 1:
        numbered = lineages if k == _NUMBERED_CLADES else numbered
        lettered = lineages if k == len(_CLADES) else lettered
        expected = 2 * _SHARED_SUBSTITUTIONS / (k * (k - 1))
        wanted = (draws.uniform(k) * expected + draws.uniform(k)).astype(np.int64).tolist()
        for lineage, n in zip(lineages, wanted, strict=True):
            sites = _take(places, n)
            for leaf in lineage:
                carried[leaf].update(sites)
        first, second = draws.sample(k, 2).tolist()
        rest = [lineage for i, lineage in enumerate(lineages) if i not in (first, second)]
        lineages = sorted([*rest, tuple(sorted(lineages[first] + lineages[second]))])
    labels = [""] * _TREE
    for letter, clade in zip(_CLADES, lettered, strict=True):
        inner = [lineage for lineage in numbered if lineage[0] in clade]
        for number, lineage in enumerate(inner, start=1):
            for leaf in lineage:
                labels[leaf] = f"{letter}{number}"
    smallest = min((lineage for lineage in numbered if len(lineage) >= 3), key=lambda lineage: (len(lineage), lineage))
    return carried, labels, smallest


def _insertions(leaf: int) -> dict[int, str]:
    """Return the insertions of C of a leaf by site: one C each, and sometimes two at the first site."""
    drawn = Draws(_KEY, 4, leaf).below(100, len(_INSERTIONS) + 1).tolist()
    found = {site: "C" for (site, share), x in zip(_INSERTIONS, drawn, strict=False) if x < share}
    return {site: "CC" if site == _INSERTIONS[0][0] and drawn[-1] < 25 else bases for site, bases in found.items()}


def _add_mixed_sites(genome: MitoGenome, reference: str, places: Iterator[int]) -> MitoGenome:
    index = int(genome.name.removeprefix("SIMMT")) - 1
    if index not in (*HETEROPLASMIC, *_UNCALLED):
        return genome
    draws = Draws(_KEY, 5, index)
    mixed = tuple(
        MixedSite(site, _substitute(reference[site], draws), int(draws.between(low, high, 1)[0]))
        for site, (low, high) in zip(_take(places, len(_LEVELS_PER_MILLE)), _LEVELS_PER_MILLE, strict=True)
    )
    return replace(genome, mixed=tuple(sorted(mixed, key=lambda m: m.site)))
