from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from genolewm_assets.sample.alleles.sites import Sites, simulate_sites
from genolewm_assets.sample.genome.reference import SimulatedContig
from genolewm_assets_tests.referees.census import normal_form


@pytest.fixture(scope="module")
def contig(genome: Mapping[str, SimulatedContig]) -> SimulatedContig:
    return genome["chr20"]


@pytest.fixture(scope="module")
def sites(contig: SimulatedContig) -> Sites:
    return simulate_sites(contig, clusters=200, rare=3_000, key=1)


def test_alleles_are_sorted_unique_and_normal(contig: SimulatedContig, sites: Sites) -> None:
    text = contig.sequence.decode()
    keys = [(a.pos, a.ref, a.alt) for a in sites.alleles]
    assert keys == sorted(set(keys))
    assert keys == [normal_form(*key, text) for key in keys]
    assert all(text[pos - 1 : pos - 1 + len(ref)] == ref for pos, ref, _ in keys)


def test_kinds_of_alleles(contig: SimulatedContig, sites: Sites) -> None:
    single = [a for a in sites.alleles if a.is_snv]
    assert 0.85 < len(single) / len(sites.alleles) < 0.95
    transitions = sum({a.ref, a.alt} in ({"A", "G"}, {"C", "T"}) for a in single)
    assert 1.8 < transitions / (len(single) - transitions) < 3.2
    text = contig.sequence.decode()
    cpg = sum("CG" in (text[a.pos - 1 : a.pos + 1], text[a.pos - 2 : a.pos]) for a in single) / len(single)
    background = 2 * text.count("CG") / (len(text) - text.count("N"))
    assert cpg > 4 * background
    lengths = [abs(len(a.ref) - len(a.alt)) for a in sites.alleles if a.is_indel]
    assert lengths.count(1) > 0.35 * len(lengths)
    assert 5 < max(lengths) <= 20


def test_common_alleles_come_in_clusters(sites: Sites) -> None:
    common = sites.background < sites.n_common
    assert 0 < common.sum() < 0.5 * common.size
    for cluster in range(200):
        pos = sites.pos[common & (sites.background // 2 == cluster)]
        assert pos.size == 0 or np.ptp(pos) <= 1_000


def test_nothing_lies_near_a_gap_or_in_an_excluded_region(contig: SimulatedContig, sites: Sites) -> None:
    text = contig.sequence.decode()
    assert not any("N" in text[a.pos - 11 : a.pos + 30] for a in sites.alleles)
    single = [a.pos - 1 for a in sites.alleles if a.is_snv]
    assert not contig.excluded[single].any()
