"""The forecast of visits, from counts alone, against the epoch that a written package serves."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from genolewm_assets.holdouts.policy import Buffer
from genolewm_assets.holdouts.schema import HOLDOUT_CORPUS, HOLDOUT_INTERVALS, HOLDOUT_SIMILAR, SimilarReason
from genolewm_assets.package_build.epoch_checks import check_visits, check_windows_suffice
from genolewm_assets.package_build.sharing import count_training_windows
from genolewm_assets.package_build.writer import write_package
from genolewm_assets.packages.info import read_package_info
from genolewm_assets.packages.mix import POSSIBLE, PackageMix
from genolewm_assets_tests.worlds.lewm.package_world import corpora, make_sources

MIX = PackageMix(replace(PackageMix().wanted, windows={"reference": 0.5, "prokaryote_evo2": 0.5}), max_visits=4)


def counts(reference: int, prokaryotes: int) -> dict[str, int]:
    return {"training_windows.reference": reference, "training_windows.prokaryote_evo2": prokaryotes}


@pytest.mark.parametrize(("prokaryotes", "passed"), [(1_000, True), (334, True), (270, False), (50, False)])
def test_the_rarest_origin_decides(prokaryotes, passed):
    result = check_windows_suffice(counts(1_000, prokaryotes), MIX)
    assert result.passed is passed
    assert result.figures["visits_of_an_epoch"] == 2_000
    assert result.figures["visits_per_window"]["prokaryote_evo2"] == pytest.approx(1_000 / prokaryotes, abs=1e-3)
    assert [row["windows_of"] for row in result.rows] == [] if passed else ["prokaryote_evo2"]


def test_what_is_to_be_changed_makes_the_windows_suffice():
    (row,) = check_windows_suffice(counts(1_000, 50), MIX).rows
    assert row["visits_per_window"] == 20.0
    assert row["remedy"] == (
        "Lower its share of the windows from 0.5000 to 0.0750, give it 334 windows, or set packages.max_visits: 21"
    )
    assert check_windows_suffice(counts(1_000, 334), MIX).passed
    assert check_windows_suffice(counts(1_000, 50), replace(MIX, max_visits=21)).passed
    lower = replace(MIX.wanted, windows={"reference": 0.925, "prokaryote_evo2": 0.075})
    assert check_windows_suffice(counts(1_000, 50), replace(MIX, wanted=lower)).passed


def test_an_origin_without_windows_has_no_share_and_no_window_at_all_is_told():
    assert check_windows_suffice(counts(1_000, 0), MIX).passed
    result = check_windows_suffice({}, MIX)
    assert not result.passed
    assert result.rows[0]["expected"] == "windows of at least one of prokaryote_evo2, reference"


@pytest.mark.parametrize(("buffer", "reference"), [(Buffer.NONE, 7), (Buffer.WINDOWS, 5)])
def test_windows_are_counted_once_whatever_excludes_them(buffer, reference):
    """Of ten windows of 100 bp, one is held out and two similar, of which one by repeats alone."""
    windows = {"chr1": pa.table({"start": [100 * at for at in range(10)], "end": [100 * at + 100 for at in range(10)]})}
    intervals = [
        {"holdout": holdout, "role": "test", "contig": "chr1", "start": 530, "end": 540}
        for holdout in ("holdout-clinvar", "holdout-haplotypes")
    ]
    similar = [
        {"origin": "reference", "contig": "chr1", "start": start, "holdout": holdout, "reason": reason}
        for start, holdout, reason in (
            (200, "holdout-chr", SimilarReason.ALIGNED),
            (200, "holdout-clinvar", SimilarReason.ALIGNED),
            (900, "holdout-chr", SimilarReason.ALIGNED),
        )
    ]
    excluded = [
        {"source": "mrna_evo2", "record_id": "a", "window_index": at, "holdout": holdout, "reason": "similar"}
        for at, holdout in ((0, "holdout-chr"), (0, "holdout-clinvar"), (1, "holdout-chr"))
    ]
    tables = [
        pa.Table.from_pylist(rows, pa.schema([schema.arrow.field(name) for name in rows[0]]))
        for rows, schema in ((intervals, HOLDOUT_INTERVALS), (similar, HOLDOUT_SIMILAR), (excluded, HOLDOUT_CORPUS))
    ]
    corpus = {"mrna_evo2": 10, "prokaryote_evo2": 4}
    assert count_training_windows(windows, corpus, *tables, margin_bp=10, buffer=buffer) == {
        "training_windows.mrna_evo2": 8,
        "training_windows.prokaryote_evo2": 4,
        "training_windows.reference": reference,
    }


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 6, None])
def test_the_forecast_is_that_of_the_written_package(tmp_path, most):
    corpus = {name: table.slice(0, most if name == "prokaryote_evo2" else None) for name, table in corpora().items()}
    mix = PackageMix(declared=POSSIBLE, max_visits=4)
    write_package(tmp_path, make_sources(corpus=corpus, mix=mix))
    info = read_package_info(tmp_path)
    windows = {}
    for name, one in info.epoch.visits.items():
        origin = f"training_windows.{name.split(',', maxsplit=1)[0]}"
        windows[origin] = windows.get(origin, 0) + one.windows
    foretold = check_windows_suffice(windows, mix)
    served = check_visits(info)
    told = {row["windows_of"] for row in foretold.rows}
    assert set(served.figures["too_often"]) == told
    assert {row["windows_of"]: row["got"] for row in foretold.rows} == {
        name: one.most for name, one in info.epoch.visits.items() if name in told
    }
