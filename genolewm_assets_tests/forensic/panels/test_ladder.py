"""The ladder of a run: every allele assigned, missing ones told, panels moved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.errors import PanelError
from genolewm_assets.forensic import LadderFit, Panel, fit_ladder, parse_hid, read_panel, size_run
from genolewm_assets.forensic.panels import Locus
from genolewm_assets_tests.worlds.forensic.runs import (
    GENOTYPE,
    KIT,
    SHIFT_BP,
    add_peak,
    ladder_traces,
    run_bytes,
    scan_of,
    traces,
    write_panel_files,
)


@pytest.fixture
def panel(tmp_path: Path) -> Panel:
    return read_panel(*write_panel_files(tmp_path))


def fit(signal: np.ndarray, panel: Panel) -> LadderFit:
    run = parse_hid(run_bytes(signal), "ladder")
    return fit_ladder(run, size_run(run), panel)


def remove(signal: np.ndarray, locus: str, allele: str) -> None:
    made = KIT[locus]
    add_peak(signal[made.channel - 1], float(scan_of(made.size(allele) - SHIFT_BP)), -3_000)


def test_every_allele_of_every_locus_is_assigned(panel: Panel) -> None:
    found = fit(ladder_traces(), panel)
    assert found.is_complete
    for name, made in KIT.items():
        assert list(found.sizes_bp[name]) == [each.allele for each in panel.locus(name).ladder]
        for allele in made.ladder:
            assert found.sizes_bp[name][allele] == pytest.approx(made.size(allele) - SHIFT_BP, abs=0.05)
    assert found.max_shift_bp == pytest.approx(SHIFT_BP, abs=0.05)


def test_bins_and_ranges_move_with_the_ladder(panel: Panel) -> None:
    moved = fit(ladder_traces(), panel).panel
    for before, after in zip(panel.loci, moved.loci, strict=True):
        assert after.start_bp == pytest.approx(before.start_bp - SHIFT_BP, abs=0.05)
        assert after.end_bp == pytest.approx(before.end_bp - SHIFT_BP, abs=0.05)
        for old, new in zip(before.bins, after.bins, strict=True):
            assert replace(new, size_bp=old.size_bp) == old
            assert new.size_bp == pytest.approx(old.size_bp - SHIFT_BP, abs=0.06)


@pytest.mark.parametrize("shift", [-6.0, -3.9, -2.0, 0.0, 2.0, 4.1, 6.0])
def test_a_panel_that_is_off_by_more_than_a_repeat_is_moved(panel: Panel, shift: float) -> None:
    def off(locus: Locus) -> Locus:
        bins = tuple(replace(each, size_bp=each.size_bp + shift) for each in locus.bins)
        return replace(locus, start_bp=locus.start_bp + shift, end_bp=locus.end_bp + shift, bins=bins)

    found = fit(ladder_traces(), replace(panel, loci=tuple(map(off, panel.loci))))
    assert found.sizes_bp == fit(ladder_traces(), panel).sizes_bp


@pytest.mark.parametrize(
    ("locus", "alleles"),
    [("M1", ("13",)), ("M1", ("9",)), ("M2", ("18",)), ("M4", ("9.3",)), ("M6", ("12", "13", "20")), ("AMELX", ("Y",))],
)
def test_missing_alleles_are_told(panel: Panel, locus: str, alleles: tuple[str, ...]) -> None:
    signal = ladder_traces()
    for allele in alleles:
        remove(signal, locus, allele)
    found = fit(signal, panel)
    assert found.missing == {locus: alleles}
    assert not found.is_complete
    assert found.panel.locus("M7") == fit(ladder_traces(), panel).panel.locus("M7")


def test_a_locus_that_the_file_counts_one_repeat_too_high_is_not_moved_up(panel: Panel) -> None:
    locus = panel.locus("M2")
    high = replace(locus, bins=tuple(replace(each, size_bp=each.size_bp + 4) for each in locus.bins))
    signal = ladder_traces()
    add_peak(signal[0], float(scan_of(KIT["M2"].size("19") - SHIFT_BP)), 1_500)
    found = fit(signal, replace(panel, loci=tuple(high if each is locus else each for each in panel.loci)))
    assert found.sizes_bp == fit(ladder_traces(), panel).sizes_bp


def test_alleles_outside_the_fragments_found_are_missing(panel: Panel) -> None:
    signal = ladder_traces()
    for size in (20, 40, 60, 80):
        add_peak(signal[4], float(scan_of(size)), -800)
    assert fit(signal, panel).missing == {"AMELX": ("X",)}


def test_strange_peaks_are_left_out(panel: Panel) -> None:
    signal = ladder_traces()
    for size in (117.0, 150.5, 233.0):
        add_peak(signal[0], float(scan_of(size)), 2_500)
    found = fit(signal, panel)
    assert found.is_complete
    assert found.sizes_bp["M2"]["9"] == pytest.approx(KIT["M2"].size("9") - SHIFT_BP, abs=0.05)


def test_a_sample_is_no_ladder(panel: Panel) -> None:
    with pytest.raises(PanelError, match="locus 'M1': most of its ladder alleles are not found: expected 12"):
        fit(traces(GENOTYPE), panel)
    with pytest.raises(PanelError, match="locus 'AMELX': most of its ladder alleles are not found"):
        fit(traces({}), panel)


def test_a_panel_of_another_kit_is_named(panel: Panel) -> None:
    locus = replace(panel.loci[0], channel=6)
    with pytest.raises(PanelError, match="the run lacks its channel: expected 1 to 5, got 6"):
        fit(ladder_traces(), replace(panel, loci=(*panel.loci[1:], locus)))
