from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genolewm_assets.package_build.card import render_card
from genolewm_assets.package_build.epoch_checks import check_mix, check_visits
from genolewm_assets.package_build.writer import write_package
from genolewm_assets.packages.info import read_package_info
from genolewm_assets.packages.mix import POSSIBLE, PackageMix, Shares, window_shares
from genolewm_assets.packages.reader import Package, open_tables
from genolewm_assets.store.artefacts.root import Root
from genolewm_assets.training.dataset import GenoLeWMDataset
from genolewm_assets_tests.worlds.lewm.package_world import corpora, failed, make_sources, publish

SYNTHETIC = {"synthetic_snv": 0.75, "synthetic_indel": 0.25}


@pytest.fixture(scope="module")
def info(tmp_path_factory):
    folder = tmp_path_factory.mktemp("epoch")
    write_package(folder, make_sources())
    return read_package_info(folder)


def test_the_possible_mix_is_stated_as_declared(info):
    assert isinstance(info.mix.declared, Shares)
    assert info.mix.declared == info.epoch.planned
    assert info.epoch.tuples > 500
    assert info.epoch.planned.edits["gnomad"] > 0.1
    assert check_mix(info).passed
    assert check_visits(info).passed


def test_a_mix_that_cannot_be_served_fails(tmp_path):
    report = write_package(tmp_path, make_sources(mix=PackageMix(max_visits=40)))
    assert failed(report.checks) == {"mix_served"}
    figures = next(check for check in report.checks if check.name == "mix_served").figures
    assert figures["declared"]["edits"]["clinvar"] == 0.125
    assert figures["planned"]["edits"]["clinvar"] < 0.1


@pytest.mark.parametrize(("name", "share"), [("reference", 0.03), ("mrna_evo2", -0.03)])
def test_a_planned_share_three_points_off_fails(info, name, share):
    windows = dict(info.epoch.planned.windows)
    windows[name] += share
    epoch = replace(info.epoch, planned=replace(info.epoch.planned, windows=windows))
    assert not check_mix(replace(info, epoch=epoch)).passed
    edits = {key: value + (0.03 if key == "clinvar" else 0) for key, value in info.epoch.planned.edits.items()}
    epoch = replace(info.epoch, planned=replace(info.epoch.planned, edits=edits))
    assert not check_mix(replace(info, epoch=epoch)).passed


def test_one_window_of_a_source_shown_too_often_fails(tmp_path):
    one = {name: table.slice(0, 1 if name == "prokaryote_evo2" else None) for name, table in corpora().items()}
    mix = PackageMix(declared=POSSIBLE, max_visits=4)
    report = write_package(tmp_path, make_sources(corpus=one, mix=mix))
    assert "visits_bounded" in failed(report.checks)
    figures = next(check for check in report.checks if check.name == "visits_bounded").figures
    assert "prokaryote_evo2" in figures["too_often"]
    assert figures["most_visits"]["prokaryote_evo2"] > 4


def test_a_stratum_that_no_epoch_visits_fails(tmp_path):
    mix = PackageMix(replace(PackageMix().wanted, windows={"reference": 1.0}), POSSIBLE)
    report = write_package(tmp_path, make_sources(mix=mix))
    figures = next(check for check in report.checks if check.name == "visits_bounded").figures
    assert not figures["never"]
    assert figures["not_in_the_mix"] == ["eukaryote_generator", "mrna_evo2", "mrna_splice_evo2", "prokaryote_evo2"]


@pytest.mark.parametrize(
    ("shares", "wanted"),
    [
        ({"reference": 1.0}, {"reference": 1.0}),
        ({"eukaryote_generator": 0.5, "reference": 0.5}, {"eukaryote_generator": 0.5, "reference": 0.5}),
    ],
)
def test_a_mix_that_names_the_reference_is_served_and_opens(tmp_path, shares, wanted):
    mix = PackageMix(Shares(window_shares(shares), SYNTHETIC), max_visits=20)
    root = Root(tmp_path / "root")
    root.claim("tiny", make_sources().genome_digest)
    folder = publish(root, make_sources(mix=mix)).directory
    assert open_tables(folder).info.epoch.planned.windows == pytest.approx(wanted, abs=0.02)
    tuples = [one for batch in GenoLeWMDataset(folder, with_states=False) for one in batch.tuples]
    for name, share in wanted.items():
        assert sum(one.origin == name for one in tuples) / len(tuples) == pytest.approx(share, abs=0.02)
    assert {str(one.edit_source) for one in tuples} == set(SYNTHETIC)


def test_without_a_window_to_visit_the_checks_fail_and_say_why(tmp_path):
    mix = PackageMix(replace(PackageMix().wanted, windows={"mrna_evo2": 1.0}), POSSIBLE)
    report = write_package(tmp_path, make_sources(corpus={}, mix=mix))
    assert failed(report.checks) == {"mix_served", "visits_bounded"}
    figures = next(check for check in report.checks if check.name == "mix_served").figures
    assert "none to visit" in figures["error"]
    assert "No epoch can be served: training windows: none to visit" in (tmp_path / "README.md").read_text()


def test_the_card_shows_wanted_declared_and_planned(info):
    text = render_card(info)
    planned = info.epoch.planned.edits["gnomad"]
    assert f"| `gnomad` | 37.5% | {planned:.1%} | {planned:.1%} |" in text
    for name, one in info.epoch.visits.items():
        assert f"| `{name}` | {one.windows} | {one.visits} | {one.median:g} | {one.high:g} | {one.most} |" in text


def test_visits_are_those_of_the_schedule(info, tmp_path):
    """Counts of the first eight epochs, from arithmetic alone, against the windows that a trainer visits."""
    write_package(tmp_path, make_sources())
    order = GenoLeWMDataset(Package(tmp_path, info, {}), with_states=False)._order
    epochs = [order.rows(epoch) for epoch in range(8)]
    visited = [name for name, figures in info.epoch.visits.items() if figures.later]
    for name, rows in zip(visited, np.split(order.rows_by_stratum, order.starts[1:-1]), strict=True):
        counts = [np.bincount(each, minlength=rows.max() + 1)[rows] for each in epochs]
        stated = info.epoch.visits[name]
        assert (stated.windows, stated.visits) == (len(rows), counts[0].sum())
        assert stated.unseen == np.count_nonzero(counts[0] == 0)
        assert stated.median == np.median(counts[0])
        assert stated.high == np.quantile(counts[0], 0.99, method="higher")
        assert stated.later == sum(each.sum() for each in counts)
        most = max(each.max() for each in counts)
        assert most <= stated.most <= most + 1
