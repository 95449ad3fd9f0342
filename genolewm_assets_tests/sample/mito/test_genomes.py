from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from genolewm_assets.sample.genome.reference import SimulatedContig
from genolewm_assets.sample.mito.genomes import MitoGenome, simulate_mito_genomes


@pytest.fixture(scope="module")
def genomes(genome: Mapping[str, SimulatedContig]) -> tuple[MitoGenome, ...]:
    return simulate_mito_genomes(genome["chrM"])


def test_substitutions_are_nested_as_on_a_tree(genomes: tuple[MitoGenome, ...]) -> None:
    """Four-gamete test (Hudson 1985): two sites of a tree without recurrence show at most three of the four pairs."""
    carriers = [
        frozenset(i for i, genome in enumerate(genomes) if site in genome.substituted)
        for site in sorted({site for genome in genomes for site in genome.substituted})
    ]
    assert all(a <= b or b <= a or not a & b for a, b in itertools.combinations(set(carriers), 2))
    shared = [len(c) for c in carriers if len(c) > 1]
    assert len(shared) > 60
    assert max(shared) > len(genomes) / 2


def test_haplogroups_are_clades(genomes: tuple[MitoGenome, ...]) -> None:
    labels = [genome.haplogroup for genome in genomes]
    assert len(set(labels)) == 14
    assert len({label[0] for label in labels}) == 6
    clades = [{i for i, label in enumerate(labels) if label.startswith(name)} for name in {*labels, *"HJTUKL"}]
    for site in {site for genome in genomes for site in genome.substituted}:
        carriers = {i for i, genome in enumerate(genomes) if site in genome.substituted}
        assert all(carriers <= clade or clade <= carriers or not carriers & clade for clade in clades)


def test_two_genomes_are_nearly_identical_and_no_others(genomes: tuple[MitoGenome, ...]) -> None:
    near = [
        (a.name, b.name)
        for a, b in itertools.combinations(genomes, 2)
        if len(a.substituted.items() ^ b.substituted.items()) <= 10
    ]
    assert near == [("SIMMT008", "SIMMT040")]


def test_indels_stand_where_people_have_them(genomes: tuple[MitoGenome, ...], sequences: dict[str, str]) -> None:
    chrm = sequences["chrM"]
    for genome in genomes:
        text = genome.spell(chrm)
        assert len(text) == len(chrm) - 1 + sum(map(len, genome.inserted.values())) - len(genome.deleted)
        assert "N" not in text
        assert all(chrm[site] == "C" and set(bases) == {"C"} for site, bases in genome.inserted.items())
    assert {site for genome in genomes for site in genome.inserted} == {308, 314, 16_192}
    assert {"C", "CC"} == {genome.inserted[308] for genome in genomes if 308 in genome.inserted}
    deleted = [genome for genome in genomes if genome.deleted]
    assert [sorted(genome.deleted) for genome in deleted] == [list(range(8_280, 8_289))] * len(deleted)
    assert len(deleted) >= 3
    assert len({genome.haplogroup for genome in deleted}) == 1


def test_a_mixed_site_shows_what_most_copies_have(genomes: tuple[MitoGenome, ...], sequences: dict[str, str]) -> None:
    chrm = sequences["chrM"]
    both = {"R": "AG", "Y": "CT", "S": "CG", "W": "AT", "K": "GT", "M": "AC"}
    shown = []
    for genome in (g for g in genomes if g.mixed):
        for mixed in genome.mixed:
            spelt = MitoGenome("", "", {}, {}, frozenset(), (mixed,)).spell(chrm)
            base = spelt[mixed.site - (mixed.site > chrm.index("N"))]
            shown.append(mixed.per_mille)
            if mixed.per_mille < 300:
                assert base == chrm[mixed.site]
            elif mixed.per_mille < 700:
                assert set(both[base]) == {chrm[mixed.site], mixed.alt}
            else:
                assert base == mixed.alt
    assert len(shown) == 9 * 5
    assert min(shown) < 300 < max(shown)
