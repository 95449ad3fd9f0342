"""Mitochondrial genomes of forty people who never lived: descendants of chrM along a tree, each with its own spelling.

They share nested substitutions as haplogroups do, differ in the length of the C stretches, and come cut anywhere, from
either strand, some with ambiguity codes where they are heteroplasmic. Their haplogroups have the form of the real names
and nothing else of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from genolewm_assets.sample.genome import UNKNOWN, Draws, SimulatedContig

N_GENOMES = 40
_TREE = N_GENOMES - 1
#: The last genome is this one with a few substitutions more.
_NEAR, _NEAR_SUBSTITUTIONS = 7, 4
_KEY = 26
#: Substitutions from the root to a leaf over all shared branches, on average; each leaf has 6 to 11 of its own besides.
_SHARED_SUBSTITUTIONS = 30
#: Six clades; inside them, fourteen numbered ones.
_CLADES = "HJTUKL"
_NUMBERED_CLADES = 14
_EDGE_BP = 20
#: 0-based; where the indels are, no substitution is.
_C_STRETCHES = ((295, 320), (16_175, 16_200))
#: 0-based place after which C's are inserted (309.1C, 315.1C, 16193.1C), and in how many of a hundred genomes.
_INSERTIONS = ((308, 40), (314, 90), (16_192, 10))
_DELETION = range(8_280, 8_289)
#: Genomes with called heteroplasmy; the first two levels of each are told by ambiguity codes.
HETEROPLASMIC = tuple(range(7))
_LEVELS_PER_MILLE = ((300, 700), (300, 700), (20, 250), (20, 250), (750, 940))
#: Two genomes whose ambiguity codes nobody called.
_UNCALLED = (10, 11)
AMBIGUITY = {"AG": "R", "CT": "Y", "CG": "S", "AT": "W", "GT": "K", "AC": "M"}
_CODE_FROM, _CODE_UP_TO = 300, 700


@dataclass(frozen=True, slots=True)
class MixedSite:
    """A heteroplasmic substitution: 0-based site, the base that chrM does not have, and its share in per mille."""

    site: int
    alt: str
    per_mille: int


@dataclass(frozen=True, slots=True)
class MitoGenome:
    """One simulated genome by its differences from chrM; sites are 0-based places on chrM.

    ``substituted`` gives a site's base, ``inserted`` the bases after a site; ``mixed`` are the heteroplasmic sites.
    """

    name: str
    haplogroup: str
    substituted: Mapping[int, str]
    inserted: Mapping[int, str]
    deleted: frozenset[int]
    mixed: tuple[MixedSite, ...] = field(default=())

    def spell(self, reference: str) -> str:
        """Return the sequence in chrM's rotation and on its strand; chrM's N is in no genome."""
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
    return tuple(_mix(genome, reference, places) for genome in genomes)


def _name(index: int) -> str:
    return f"SIMMT{index + 1:03d}"


def _places(contig: SimulatedContig) -> Sequence[int]:
    """Return the sites that may be substituted, in random order."""
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
    """Return another base: nine times in ten the transition."""
    change = 2 if draws.below(10, 1)[0] < 9 else 1 + 2 * int(draws.below(2, 1)[0])
    return "ACGT"["ACGT".index(base) ^ change]


def _grow_tree(places: Iterator[int]) -> tuple[list[set[int]], list[str], tuple[int, ...]]:
    """Join lineages two at a time, back to the root (Kingman 1982); every mutation has a site of its own.

    Returns
    -------
    carried
        Substituted sites of each leaf.
    labels
        Haplogroup of each leaf: a letter for one of six clades, a number for a clade inside it.
    clade
        The leaves of the smallest clade of at least three among the numbered ones.
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
    """Return the C's added to the C stretches: one each, in the first of them now and then two."""
    drawn = Draws(_KEY, 4, leaf).below(100, len(_INSERTIONS) + 1).tolist()
    found = {site: "C" for (site, share), x in zip(_INSERTIONS, drawn, strict=False) if x < share}
    return {site: "CC" if site == _INSERTIONS[0][0] and drawn[-1] < 25 else bases for site, bases in found.items()}


def _mix(genome: MitoGenome, reference: str, places: Iterator[int]) -> MitoGenome:
    index = int(genome.name.removeprefix("SIMMT")) - 1
    if index not in (*HETEROPLASMIC, *_UNCALLED):
        return genome
    draws = Draws(_KEY, 5, index)
    mixed = tuple(
        MixedSite(site, _substitute(reference[site], draws), int(draws.between(low, high, 1)[0]))
        for site, (low, high) in zip(_take(places, len(_LEVELS_PER_MILLE)), _LEVELS_PER_MILLE, strict=True)
    )
    return replace(genome, mixed=tuple(sorted(mixed, key=lambda m: m.site)))
