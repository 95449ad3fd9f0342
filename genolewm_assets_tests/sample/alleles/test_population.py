from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.sample.alleles.population import GENOMES_V3, GENOMES_V4, JOINT_V4, Callset, Counts, simulate_counts
from genolewm_assets.sample.alleles.sites import Sites, simulate_sites
from genolewm_assets.sample.alleles.spelling import Plants, choose_heads
from genolewm_assets.sample.genome.reference import SimulatedContig
from genolewm_assets_tests.referees.census import GNOMAD_FILES, read_rows


@pytest.fixture(scope="module")
def sites(genome: Mapping[str, SimulatedContig]) -> Sites:
    return simulate_sites(genome["chr17"], clusters=300, rare=3_000, key=3)


@pytest.fixture(scope="module", params=[GENOMES_V3, GENOMES_V4, JOINT_V4], ids=["v3", "v4", "joint"])
def callset(request: pytest.FixtureRequest) -> Callset:
    chosen = request.param
    assert isinstance(chosen, Callset)
    return chosen


@pytest.fixture(scope="module")
def counts(sites: Sites, callset: Callset) -> Counts:
    return simulate_counts(sites, choose_heads(sites, Plants(), key=3), callset, key=3)


def test_counts_are_possible(counts: Counts) -> None:
    assert (counts.ac >= 0).all()
    assert (counts.ac <= counts.an).all()
    assert (2 * counts.nhomalt <= counts.ac).all()
    assert (counts.an > 0).all()
    assert counts.an.sum(axis=0).max() == counts.callset.most_alleles


def test_alleles_of_one_record_share_its_numbers(sites: Sites, counts: Counts) -> None:
    head = choose_heads(sites, Plants(), key=3)
    second = np.flatnonzero(head != np.arange(head.size))
    assert second.size == Plants().merged
    assert np.array_equal(counts.an[:, second], counts.an[:, head[second]])
    assert (counts.ac[:, second] + counts.ac[:, head[second]] <= counts.an[:, second]).all()


def test_only_ac0_records_have_no_carrier(counts: Counts) -> None:
    unseen = counts.ac.sum(axis=0) == 0
    assert unseen.tolist() == [name.startswith("AC0") for name in counts.filters]


def test_every_filter_occurs(counts: Counts) -> None:
    assert set(counts.filters) == {name for name, _ in counts.callset.filters}


def test_rare_alleles_follow_the_neutral_spectrum(counts: Counts) -> None:
    af = counts.af[counts.ac.sum(axis=0) > 0]
    tenths = [((af >= low) & (af < 10 * low)).mean() for low in (1e-4, 1e-3, 1e-2, 1e-1)]
    # With weight 1/f every decade holds about as many alleles, whereas uniform frequencies would give ten times more.
    assert max(tenths[:2]) < 3 * min(tenths[:2])
    assert 0.15 < (af >= 0.01).mean() < 0.4
    assert af.max() > 0.5


def test_groups_differ_by_drift(counts: Counts) -> None:
    common = counts.well_called()
    frequency = counts.ac[:, common] / counts.an[:, common]
    row = {group: frequency[i] for i, group in enumerate(counts.callset.groups)}
    assert np.abs(row["eas"] - row["afr"]).mean() > np.abs(row["nfe"] - row["amr"]).mean() > 0.01


def test_alleles_of_a_haplotype_are_linked(sites: Sites, counts: Counts) -> None:
    af = counts.af
    pairs = [
        np.flatnonzero((sites.background == carrier) & (af > 0))[:2]
        for carrier in np.unique(sites.background[sites.background < sites.n_common])
    ]
    linked = np.array([af[pair] for pair in pairs if pair.size == 2])
    assert np.corrcoef(linked.T)[0, 1] > 0.98


def test_four_alleles_stand_on_the_thresholds(counts: Counts) -> None:
    exact, below, half, less = counts.borders
    ac, an, most = counts.ac.sum(axis=0), counts.an.sum(axis=0), counts.callset.most_alleles
    assert 100 * ac[exact] == an[exact]
    assert 100 * (ac[below] + 1) == an[below]
    assert (2 * an[half], 2 * an[less]) == (most, most - 4)
    assert min(counts.af[[half, less]]) > 0.1
    assert [counts.filters[i] for i in counts.borders] == ["PASS"] * 4
    assert not counts.well_called()[list(counts.borders)].any()


def test_no_other_frequency_is_near_the_threshold(counts: Counts) -> None:
    # Printed with six digits, such a one could fall on either side.
    near = np.abs(counts.af - 0.01) < 5e-9
    assert np.flatnonzero(near).tolist() == [counts.borders[0]]


@pytest.mark.parametrize("contig", ["chr17", "chr20", "chr21"])
def test_border_survives_in_the_text(contig: str, sample_dir: Path) -> None:
    path = sample_dir / "gnomad" / GNOMAD_FILES[contig]
    suffix = "_joint" if "joint" in path.name else ""
    rows = [info for _, info in read_rows(path) if info[f"AF{suffix}"] == "1.00000e-02"]
    assert any(100 * int(info[f"AC{suffix}"]) == int(info[f"AN{suffix}"]) for info in rows)
