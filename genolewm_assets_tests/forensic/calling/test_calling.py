"""Allele calls of simulated samples of a kit that is known from its panel files alone."""

from __future__ import annotations

import numpy as np
import pytest

from genolewm_assets.errors import PanelError
from genolewm_assets.forensic import (
    CallingRules,
    Panel,
    ProfileCalls,
    call_alleles,
    fit_ladder,
    parse_hid,
    read_panel,
    size_run,
)
from genolewm_assets.forensic.calling import OFF_LADDER, CalledPeak, PeakFlag
from genolewm_assets_tests.rows import each_row
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


@pytest.fixture(scope="module")
def panel(tmp_path_factory: pytest.TempPathFactory) -> Panel:
    run = parse_hid(run_bytes(ladder_traces()), "ladder")
    return fit_ladder(run, size_run(run), read_panel(*write_panel_files(tmp_path_factory.mktemp("kit")))).panel


def call(signal: np.ndarray, panel: Panel, rules: CallingRules | None = None) -> ProfileCalls:
    run = parse_hid(run_bytes(signal, scrambled=True), "sample")
    return call_alleles(run, size_run(run), panel, rules=rules)


def at(calls: ProfileCalls, locus: str, allele: str) -> CalledPeak:
    (peak,) = (peak for peak in calls.peaks if (peak.locus, peak.allele) == (locus, allele))
    return peak


def add(signal: np.ndarray, locus: str, allele: str, height: float, *, off_bp: float = 0.0) -> None:
    made = KIT[locus]
    add_peak(signal[made.channel - 1], float(scan_of(made.size(allele) - SHIFT_BP + off_bp)), height)


WANTED = {locus: tuple(alleles) for locus, alleles in GENOTYPE.items()}


@each_row("height", [400, 2_000, 15_000])
@each_row("seed", [1, 2])
def test_the_genotype_is_called_at_any_height(panel: Panel, height: float, seed: int) -> None:
    calls = call(traces(GENOTYPE, height=height, seed=seed), panel)
    assert calls.genotype == WANTED
    assert all(abs(peak.distance_bp) < 0.2 for peak in calls.peaks if peak.is_allele)


def test_nothing_is_called_of_a_blank(panel: Panel) -> None:
    calls = call(traces({}), panel)
    assert calls.genotype == dict.fromkeys(KIT, ())
    assert calls.loci == tuple(KIT)


@each_row(
    ("stutter", "bp", "share"),
    [("back", -4, 0.15), ("forward", 4, 0.08), ("double", -8, 0.03), ("half", 2, 0.06), ("half", -2, 0.06)],
)
def test_each_kind_of_stutter_has_its_share(panel: Panel, stutter: str, bp: int, share: float) -> None:
    rules = CallingRules(min_fraction=0)
    for factor, flagged in ((0.9, True), (1.2, False)):
        signal = traces({**GENOTYPE, "M7": ("15",)}, height=10_000, stutter=0)
        add(signal, "M7", "15", factor * share * 10_000, off_bp=bp)
        (peak,) = (peak for peak in call(signal, panel, rules).peaks if peak.locus == "M7" and peak.allele != "15")
        assert (PeakFlag.STUTTER in peak.flags) == flagged
        none = CallingRules(min_fraction=0, **{f"{stutter}_stutter": 0.0})
        (other,) = (o for o in call(signal, panel, none).peaks if (o.locus, o.scan) == ("M7", peak.scan))
        assert PeakFlag.STUTTER not in other.flags


def test_stutter_of_both_neighbours_adds_up(panel: Panel) -> None:
    signal = traces({**GENOTYPE, "M2": ("9", "11")}, height=5_000, stutter=0.0)
    add(signal, "M2", "10", 0.2 * 5_000)
    add(signal, "M7", "12", 0.2 * 5_000)
    assert call(signal, panel).genotype["M2"] == ("9", "11")
    assert "12" in call(signal, panel).genotype["M7"]


def test_amelogenin_has_no_stutter(panel: Panel) -> None:
    signal = traces({**GENOTYPE, "AMELX": ("Y",)}, height=5_000)
    add(signal, "AMELX", "X", 600)
    assert call(signal, panel).genotype["AMELX"] == ("X", "Y")


def test_a_peak_in_no_bin_is_off_ladder(panel: Panel) -> None:
    signal = traces({**GENOTYPE, "M6": ("17",)}, height=2_000)
    add(signal, "M6", "21", 2_000, off_bp=1.9)
    calls = call(signal, panel)
    assert calls.genotype["M6"] == ("17", OFF_LADDER)
    assert at(calls, "M6", OFF_LADDER).flags == PeakFlag.OFF_LADDER
    assert at(calls, "M6", OFF_LADDER).size_bp == pytest.approx(KIT["M6"].size("21") - SHIFT_BP + 1.9, abs=0.1)


def test_low_and_minor_peaks_are_no_alleles(panel: Panel) -> None:
    signal = traces({**GENOTYPE, "M3": ("6",)}, height=6_000, stutter=0)
    add(signal, "M3", "12", 120)
    add(signal, "M3", "15", 250)
    calls = call(signal, panel)
    assert calls.genotype["M3"] == ("6",)
    assert at(calls, "M3", "12").flags == PeakFlag.LOW | PeakFlag.MINOR
    assert at(calls, "M3", "15").flags == PeakFlag.MINOR
    rules = CallingRules(analytical_rfu=100, min_fraction=0)
    assert call(signal, panel, rules).genotype["M3"] == ("6", "12", "15")


def test_pull_up_is_flagged(panel: Panel) -> None:
    signal = traces({**GENOTYPE, "M2": (), "M6": ("12",)}, height=6_000, stutter=0)
    size = KIT["M6"].size("12") - SHIFT_BP  # a blue peak at the scan of a yellow one
    add_peak(signal[0], float(scan_of(size)), 400)
    (peak,) = (peak for peak in call(signal, panel).peaks if peak.locus == "M2")
    assert PeakFlag.PULL_UP in peak.flags
    assert not peak.is_allele


def test_saturated_peaks_are_flagged_and_called(panel: Panel) -> None:
    signal = traces({**GENOTYPE, "M7": ("12", "15.3")}, height=2_000)
    add(signal, "M7", "12", 60_000)
    calls = call(signal, panel)
    assert at(calls, "M7", "12").flags == PeakFlag.OFF_SCALE
    assert at(calls, "M7", "15.3").flags == PeakFlag.NONE
    assert calls.genotype["M7"] == ("12", "15.3")


def test_peaks_outside_the_fragments_found_are_no_alleles(panel: Panel) -> None:
    signal = traces({**GENOTYPE, "M3": ("5", "16")})
    for size in (20, 40, 60, 80, 100, 114):
        add_peak(signal[4], float(scan_of(size)), -800)
    calls = call(signal, panel)
    assert at(calls, "M3", "5").flags == PeakFlag.UNSIZED
    assert calls.genotype["M3"] == ("16",)


def test_a_panel_of_another_kit_is_named(panel: Panel) -> None:
    signal = traces(GENOTYPE)
    with pytest.raises(PanelError, match="the run lacks its channel"):
        run = parse_hid(run_bytes(signal), "sample")
        four = type(run)(run.where, run.version, run.tags, run.dyes[:3], run.off_scale, run.run)
        call_alleles(four, size_run(run), panel)


def test_what_is_printed_shows_no_alleles(panel: Panel) -> None:
    calls = call(traces(GENOTYPE), panel)
    assert repr(calls) == f"ProfileCalls(8 loci, {len(calls.peaks)} peaks, 14 called)"
    for text in (repr(calls), str(calls), *map(repr, calls.peaks), *map(str, calls.peaks)):
        assert "9.3" not in text
        assert "15" not in text
        assert "size" not in text
