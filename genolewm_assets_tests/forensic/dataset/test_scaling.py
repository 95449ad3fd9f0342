"""The grid of a profile, and traces as the loading strategies return them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.errors import AbifError, ConfigurationError, PanelError
from genolewm_assets.forensic import parse_hid
from genolewm_assets.forensic.dataset.scaling import ScalingStrategy, load_traces, nearest_scans
from genolewm_assets_tests.referees.dnanet_profile import superior
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.forensic.runs import GENOTYPE, KIT, run_bytes, traces, write_panel_files


@pytest.fixture
def panel_paths(tmp_path: Path) -> tuple[Path, Path]:
    return write_panel_files(tmp_path)


@each_row("seed", range(5))
def test_the_nearest_scan_is_taken(seed: int) -> None:
    draw = np.random.default_rng(seed)
    sizes = np.sort(draw.uniform(60, 500, 700))
    grid = np.linspace(50, 510, 997)
    wanted = [int(np.abs(sizes - point).argmin()) for point in grid]
    assert nearest_scans(sizes, grid).tolist() == wanted


def test_of_two_scans_as_near_the_earlier_is_taken() -> None:
    assert nearest_scans([10.0, 11.0, 12.0], [9.0, 10.5, 11.5, 11.6, 13.0]).tolist() == [0, 0, 1, 2, 2]


def test_rows_and_grid_follow_from_the_panel_files(panel_paths: tuple[Path, Path]) -> None:
    scaling = ScalingStrategy(panel_paths)
    assert scaling.channels == (1, 2, 3, 4)
    assert [scaling.channels.index(channel) for channel in (1, 4)] == [0, 3]
    spans = [(locus.start_bp, locus.end_bp) for locus in scaling.panel.loci]
    assert len(scaling.grid_bp) == 4_096
    assert scaling.grid_bp[0] == pytest.approx(min(low for low, _ in spans) - 10)
    assert scaling.grid_bp[-1] == pytest.approx(max(high for _, high in spans) + 10)
    assert set(KIT) == {locus.name for locus in scaling.panel.loci}
    given = ScalingStrategy(panel_paths, start_bp=65, end_bp=475, scanpoint_resolution=42)
    assert given.grid_bp.tolist() == np.linspace(65, 475, 42).tolist()
    others = (scaling, ScalingStrategy(panel_paths[::-1]), ScalingStrategy(panel_paths, panel_name="Made_v1"))
    assert all(given.cache_signature() != each.cache_signature() for each in others)
    assert scaling.cache_signature() != others[1].cache_signature()


@pytest.mark.parametrize("wrong", [{"panel_paths": ()}, {"scanpoint_resolution": 1}, {"start_bp": 90, "end_bp": 80}])
def test_a_grid_that_is_none_is_named(panel_paths: tuple[Path, Path], wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match="scaling strategy"):
        ScalingStrategy(**{"panel_paths": panel_paths, **wrong})  # type: ignore[arg-type]


def test_superior_is_raw_without_a_running_percentile() -> None:
    signal = traces(GENOTYPE, height=30_000)
    signal[1] += np.linspace(-20_000, 20_000, signal.shape[1])
    run = parse_hid(run_bytes(signal), "sample")
    found = load_traces(run, (1, 2, 5), "superior")
    assert found.dtype == np.int16
    for row, channel in enumerate((1, 2, 5)):
        raw = run.dyes[channel - 1].raw
        np.testing.assert_array_equal(found[row], superior(raw))
        np.testing.assert_array_equal(load_traces(run, (channel,), "raw")[0], raw)


def test_a_short_trace_has_a_baseline() -> None:
    run = parse_hid(run_bytes(traces(GENOTYPE)[:, :30]), "sample")
    np.testing.assert_array_equal(load_traces(run, (1,), "superior")[0], superior(run.dyes[0].raw))


def test_traces_that_are_missing_are_named() -> None:
    run = parse_hid(run_bytes(traces(GENOTYPE)), "sample")
    with pytest.raises(AbifError, match="sample channel 2: has no analysed trace"):
        load_traces(run, (2,), "analyzed")
    with pytest.raises(PanelError, match="lacks its channel: expected 1 to 5, got 6"):
        load_traces(run, (6,), "raw")
    analysed = replace(run, dyes=tuple(replace(dye, analysed=dye.raw // 2) for dye in run.dyes))
    np.testing.assert_array_equal(load_traces(analysed, (2,), "analyzed")[0], run.dyes[1].raw // 2)
