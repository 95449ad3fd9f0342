"""A kit that no code knows: six dyes, known from its panel files alone, whichever maker's format they are in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.forensic import call_alleles, parse_hid, size_run
from genolewm_assets_tests.places import REPOSITORY
from genolewm_assets_tests.worlds.forensic.folders import open_dataset, scaling_of, write_folder, write_kit
from genolewm_assets_tests.worlds.forensic.runs import MadeLocus, repeats

SIX_DYES = 6


#: Dyes, order and approximate sizes of GlobalFiler's loci; 24 loci in five dyes beside the size standard.
GLOBALFILER = {
    "D3S1358": MadeLocus("blue", 1, 62, 4, repeats(9, 20)),
    "vWA": MadeLocus("blue", 1, 112, 4, repeats(11, 24)),
    "D16S539": MadeLocus("blue", 1, 210, 4, repeats(5, 15)),
    "CSF1PO": MadeLocus("blue", 1, 260, 4, repeats(6, 15)),
    "TPOX": MadeLocus("blue", 1, 318, 4, repeats(5, 15)),
    "Yindel": MadeLocus("green", 2, 76, 5, repeats(1, 2)),
    "AMEL": MadeLocus("green", 2, 98, 6, ("X", "Y")),
    "D8S1179": MadeLocus("green", 2, 94, 4, repeats(5, 19)),
    "D21S11": MadeLocus("green", 2, 88, 4, (*repeats(24, 33), "33.2", *repeats(34, 38)), ("31.2",)),
    "D18S51": MadeLocus("green", 2, 234, 4, repeats(7, 27)),
    "DYS391": MadeLocus("green", 2, 340, 4, repeats(7, 13)),
    "D2S441": MadeLocus("yellow", 3, 46, 4, repeats(8, 17)),
    "D19S433": MadeLocus("yellow", 3, 98, 4, repeats(6, 18), ("14.2",)),
    "TH01": MadeLocus("yellow", 3, 164, 4, (*repeats(4, 9), "9.3", "10", "11", "13")),
    "FGA": MadeLocus("yellow", 3, 160, 4, repeats(17, 33)),
    "D22S1045": MadeLocus("red", 4, 64, 3, repeats(8, 19)),
    "D5S818": MadeLocus("red", 4, 112, 4, repeats(7, 18)),
    "D13S317": MadeLocus("red", 4, 172, 4, repeats(5, 16)),
    "D7S820": MadeLocus("red", 4, 236, 4, repeats(6, 15)),
    "SE33": MadeLocus("red", 4, 292, 4, repeats(5, 35)),
    "D10S1248": MadeLocus("purple", 6, 54, 4, repeats(8, 19)),
    "D1S1656": MadeLocus("purple", 6, 122, 4, repeats(9, 20), ("17.3",)),
    "D12S391": MadeLocus("purple", 6, 164, 4, repeats(14, 27)),
    "D2S1338": MadeLocus("purple", 6, 236, 4, repeats(11, 28)),
}
GENOTYPE = {
    name: (locus.ladder[1], locus.virtual[0] if locus.virtual else locus.ladder[-2])
    if len(locus.ladder) > 2
    else locus.ladder
    for name, locus in GLOBALFILER.items()
}


def genemarker(folder: Path) -> tuple[Path, ...]:
    loci = "".join(
        f"<Locus><MarkerTitle>{name}</MarkerTitle><DyeIndex>{locus.channel}</DyeIndex>"
        f"<n_NucleotideRepeats>{locus.repeat_bp}</n_NucleotideRepeats>"
        f"<LowerBoundary>{low - 2}</LowerBoundary><UpperBoundary>{high + 2}</UpperBoundary>{bins}</Locus>"
        for name, locus in GLOBALFILER.items()
        for low, high, bins in [_genemarker_bins(locus)]
    )
    folder.mkdir()
    path = folder / "Made.xml"
    path.write_text(f"<Panel><PanelName>Made</PanelName><Loci>{loci}</Loci></Panel>")
    return (path,)


def _genemarker_bins(locus: MadeLocus) -> tuple[float, float, str]:
    alleles = (*locus.ladder, *locus.virtual)
    sizes = [locus.size(allele) for allele in alleles]
    bins = "".join(
        f"<Allele Label='{allele}' Size='{size}' Left_Binning='0.5' Right_Binning='0.5'"
        f" Control='{int(allele in locus.ladder)}'/>"
        for allele, size in zip(alleles, sizes, strict=True)
    )
    return min(sizes), max(sizes), bins


@pytest.mark.parametrize("make_panel", [partial(write_kit, kit=GLOBALFILER), genemarker])
def test_a_kit_of_six_dyes_works_from_its_files(tmp_path: Path, make_panel: Callable[[Path], tuple[Path, ...]]) -> None:
    samples: Mapping[str, Mapping[str, tuple[str, ...]]] = {"a01": GENOTYPE}
    root = write_folder(tmp_path / "data", kit=GLOBALFILER, samples=samples, n_dyes=SIX_DYES)
    paths = make_panel(tmp_path / "kit")
    scaling = scaling_of(paths, start_bp=None, end_bp=None, scanpoint_resolution=4_096)
    dataset = open_dataset(root, paths, tmp_path / "caches", scaling_strategy=scaling, adjustment_of_annotations="top")
    assert dataset.build_report is not None
    assert dataset.build_report.unusable_ladders == {}
    image = dataset[0]
    assert image.data.shape == (5, 4_096)
    assert image.adjusted_panel is not None
    run = parse_hid((root / "run 1" / "a01.hid").read_bytes(), "a01")
    calls = call_alleles(run, size_run(run), image.adjusted_panel)
    assert calls.genotype == GENOTYPE
    assert image.annotation is not None
    tops = np.argwhere(image.annotation)
    assert len(tops) == sum(map(len, GENOTYPE.values()))
    called = sorted((scaling.channels.index(peak.channel), peak.size_bp) for peak in calls.peaks if peak.is_allele)
    for (row, point), (called_row, size) in zip(tops.tolist(), called, strict=True):
        assert row == called_row
        assert image.scaler[point] == pytest.approx(size, abs=0.2)


def test_no_locus_of_it_is_named_in_code() -> None:
    text = "".join(path.read_text() for path in (REPOSITORY / "genolewm_assets" / "forensic").rglob("*.py"))
    named = [name for name in GLOBALFILER if name != "AMEL" and f'"{name}' in text]
    assert named == []
