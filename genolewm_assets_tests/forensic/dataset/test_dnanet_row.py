"""DNANet's own row of one profile, and its pre-processing, compared with ours (``docs/decisions/0088``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets import forensic
from genolewm_assets.forensic import RunFolderStrategy, ScalingStrategy, parse_hid, read_panel
from genolewm_assets.forensic.dataset.annotations import (
    AlleleAnnotation,
    mask_of_bins,
    mask_of_peaks,
    parse_allele_report,
    parse_annotation_map,
    place_alleles,
)
from genolewm_assets.forensic.dataset.scaling import load_traces, nearest_scans
from genolewm_assets.forensic.panels import Locus, Panel
from genolewm_assets.forensic.sizing import size_run
from genolewm_assets_tests.forensic.test_real_runs import FOLDER as RUNS
from genolewm_assets_tests.forensic.test_real_runs import GENOTYPE_OF_2800M, REAL
from genolewm_assets_tests.referees import dnanet_profile as dnanet
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.forensic.folders import allele_report

FOLDER = RUNS / "dnanet"
CHANNELS = (1, 2, 3, 4, 6)
SAMPLES = ["2800M", *(f"NTD0{n}" for n in range(1, 8))]
#: Sizes of amelogenin in the ladder of that run, which a test of DNANet publishes.
AMELOGENIN_BP = {"X": 81.43459915611814, "Y": 87.59493670886076}

#: Data and mask of a profile.
Row = tuple[np.ndarray, np.ndarray]
pytestmark = REAL


@pytest.fixture(scope="module")
def row() -> Row:
    data, mask = (np.load(FOLDER / f"1A2_A01_01{end}.npy")[..., 0] for end in ("", "_annotation"))
    return data.astype(np.int16), mask.astype(np.int8)


@pytest.fixture(scope="module")
def annotation() -> AlleleAnnotation:
    table = (FOLDER / "2p_5p_hid_to_annotation.csv").read_bytes()
    name = parse_annotation_map(table, "map", "DTH")["1A2_A01_01"]
    return parse_allele_report((FOLDER / "Dataset_1_DTH_AlleleReport.txt").read_bytes(), "report")[name]


@pytest.fixture(scope="module")
def panel() -> Panel:
    return read_panel(FOLDER / "panel.xml")


def runs_of(mask: np.ndarray) -> list[tuple[int, int, int]]:
    """Return row, first point and end of each piece of ones."""
    edges = [np.flatnonzero(np.diff(np.r_[0, own, 0])).tolist() for own in mask]
    return [(n, first, end) for n, own in enumerate(edges) for first, end in zip(own[::2], own[1::2], strict=True)]


def nearest(pieces: Mapping[tuple[int, int], int], n: int, first: int) -> tuple[int, int]:
    """Return the piece of a row that begins nearest to a point."""
    return min((key for key in pieces if key[0] == n), key=lambda key: abs(key[1] - first))


def test_both_layouts_and_both_maps_say_the_same(annotation: AlleleAnnotation) -> None:
    (replica,) = parse_allele_report((FOLDER / "1A2_annotations.csv").read_bytes(), "csv").values()
    assert replica == annotation
    small = parse_annotation_map((FOLDER / "annotations_mapping.csv").read_bytes(), "map", "DTL")
    whole = parse_annotation_map((FOLDER / "2p_5p_hid_to_annotation.csv").read_bytes(), "map", "DTL")
    assert small.items() <= whole.items()
    assert len(whole) > 300
    report = parse_allele_report((FOLDER / "Dataset_1_DTH_AlleleReport.txt").read_bytes(), "report")
    assert len(report) == 58
    assert {len(each.loci) for each in report.values()} == {27}


def shifted(locus: Locus, shift_bp: float) -> Panel:
    """Return a panel of one locus with all bins moved alike."""
    return Panel("moved", (replace(locus, bins=tuple(replace(b, size_bp=b.size_bp + shift_bp) for b in locus.bins)),))


def misses(
    annotation: AlleleAnnotation, panel: Panel, theirs: Mapping[tuple[int, int], int]
) -> dict[tuple[int, int], int]:
    """Return by how many points both edges of each allele's bin differ from the nearest piece, by that piece."""
    places, unplaced = place_alleles(annotation, panel, dnanet.GRID_BP, CHANNELS)
    assert unplaced == 0
    near = {nearest(theirs, n, first): (first, end) for n, first, end in places}
    return {key: abs(key[1] - first) + abs(theirs[key] - end) for key, (first, end) in near.items()}


def test_the_mask_is_reproduced_but_for_the_ladder(row: Row, annotation: AlleleAnnotation, panel: Panel) -> None:
    """That run's ladder is not published; with one shift for each locus in its place, edges are right to a point."""
    theirs = {(n, first): end for n, first, end in runs_of(row[1])}
    differences: list[int] = []
    shifts: dict[str, float] = {}
    for locus in panel.loci:
        own = AlleleAnnotation({locus.name: annotation.loci[locus.name]})
        candidates = {bp: misses(own, shifted(locus, bp), theirs) for bp in (np.arange(-150, 151) / 100).tolist()}
        shifts[locus.name] = min(candidates, key=lambda bp: (sum(candidates[bp].values()), abs(bp)))
        best = candidates[shifts[locus.name]]
        assert len(best) == len(own.loci[locus.name])
        differences += best.values()
        theirs = {key: end for key, end in theirs.items() if key not in best}
    assert theirs == {}
    assert len(differences) == 70
    assert max(differences) <= 2  # a point at each edge: sizes of their scans, too, are not published
    assert differences.count(0) >= 45
    assert shifts.pop("D18S51") == pytest.approx(1.2, abs=0.1)
    assert all(-0.2 < shift <= 0 for shift in shifts.values())


def test_the_mask_of_amelogenin_is_reproduced_exactly(row: Row, annotation: AlleleAnnotation, panel: Panel) -> None:
    locus = panel.locus("AMEL")
    bins = tuple(type(each)(each.allele, AMELOGENIN_BP[each.allele], 0.5, 0.5, True) for each in locus.bins)
    moved = Panel("moved", (Locus("AMEL", 1, 75, 95, 9, bins),))
    places, _ = place_alleles(AlleleAnnotation({"AMEL": annotation.loci["AMEL"]}), moved, dnanet.GRID_BP, CHANNELS)
    mask = mask_of_bins(places, row[1].shape)
    end = places[-1][2] + 50
    np.testing.assert_array_equal(mask[0, :end], row[1][0, :end])


def test_peaks_of_their_bins(row: Row) -> None:
    data, mask = row
    bins = runs_of(mask)
    top, complete = (mask_of_peaks(bins, data, adjustment) for adjustment in ("top", "complete"))
    assert top.sum() == len(bins)
    assert (complete >= top).all()
    assert (data[complete == 1] >= 40).all()
    for n, first, end in bins:
        assert top[n, first:end].sum() == 1
        assert data[n, first:end].max() == data[n, first:end][top[n, first:end] == 1]


def test_their_data_is_analysed_by_the_instrument(row: Row) -> None:
    assert row[0].min() == 0  # a baseline below the noise would leave negative values
    repeated = (row[0][:, 1:] == row[0][:, :-1]).all(axis=0)
    assert 20 < repeated.sum() < 2_000  # where a base pair has fewer scans than points, a scan is taken twice


@each_row("name", SAMPLES)
def test_profiles_are_those_of_the_published_steps(name: str) -> None:
    run = parse_hid((RUNS / f"PPF6C_{name}.hid").read_bytes(), name)
    standard = load_traces(run, (5,), "superior")[0]
    tops = dnanet.standard_peaks(standard)
    if name == "NTD07":  # a fragment is missed, and the published steps skip the profile
        assert tops is None
        assert size_run(run).missing_bp == ()
        return
    assert tops is not None
    theirs = dnanet.spline_sizes(tops, dnanet.WEN_ILS_BP, run.n_scans)
    sizing = size_run(run)
    their_scans, our_scans = dnanet.grid_scans(theirs), nearest_scans(sizing.scaler, dnanet.GRID_BP)
    # Local Southern and tops between scans, against a cubic spline through whole scans.
    assert np.abs(theirs[their_scans] - sizing.scaler[our_scans]).max() < 0.12
    assert np.abs(their_scans - our_scans).max() <= 2
    for strategy in ("raw", "superior", "analyzed"):
        traces = load_traces(run, CHANNELS, strategy)
        raw = [run.dyes[channel - 1].raw for channel in CHANNELS]
        analysed = [run.dyes[channel - 1].analysed for channel in CHANNELS]
        plain = {"raw": raw, "superior": list(map(dnanet.superior, raw)), "analyzed": analysed}[strategy]
        np.testing.assert_array_equal(traces, plain)
        same = their_scans == our_scans
        assert same.mean() > 0.4
        np.testing.assert_array_equal(traces[:, our_scans][:, same], np.array(plain)[:, their_scans][:, same])


def test_a_data_set_of_the_real_runs(tmp_path: Path) -> None:
    """The published genotype of 2800M as a report: each of its alleles is labelled, at a peak."""
    root = tmp_path / "run"
    root.mkdir()
    for name in ("2800M", "ladder", "neg", "NTD01"):
        (root / f"PPF6C_{name}.hid").symlink_to(RUNS / f"PPF6C_{name}.hid")
    (root / "AlleleReport.txt").write_text(allele_report({"PPF6C_2800M": GENOTYPE_OF_2800M}))
    panel_paths = tuple(RUNS / "osiris" / f"PowerPlex_Fusion_6C_{kind}_IDX_v1.2.txt" for kind in ("Panels", "Bins"))
    scaling = ScalingStrategy(panel_paths, start_bp=65, end_bp=475)
    dataset = forensic.HIDDataset(
        root, scaling, RunFolderStrategy(), cache_dir=tmp_path / "caches", adjustment_of_annotations="top"
    )
    (image,) = dataset
    assert image.path == "PPF6C_2800M.hid"
    assert image.meta["ladder"] == "PPF6C_ladder.hid"
    assert image.meta["unplaced_alleles"] == 0
    assert image.data.shape == (5, 4_096)
    assert image.annotation is not None
    assert image.annotation.sum() == sum(map(len, GENOTYPE_OF_2800M.values()))
    assert (image.data[image.annotation == 1] > 175).all()
