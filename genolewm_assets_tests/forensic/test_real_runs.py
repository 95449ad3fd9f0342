"""The NIST runs of PowerPlex Fusion 6C: traces, scalars, sizes, ladder and genotypes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from genolewm_assets.forensic import (
    HidFile,
    LadderFit,
    Sizing,
    call_alleles,
    fit_ladder,
    read_hid,
    read_panel,
    size_run,
)
from genolewm_assets.forensic.calling import PeakFlag
from genolewm_assets_tests.places import SHARED_DATA
from genolewm_assets_tests.referees.plain_abif import header_entries, plain_entries
from genolewm_assets_tests.rows import each_row

FOLDER = SHARED_DATA / "hid"
DONORS = [f"NTD0{n}" for n in range(1, 8)]
RUNS = ["2800M", "ladder", "neg", *DONORS]
PANELS = {
    "genemapper": ("osiris/PowerPlex_Fusion_6C_Panels_IDX_v1.2.txt", "osiris/PowerPlex_Fusion_6C_Bins_IDX_v1.2.txt"),
    "osiris": ("osiris/PPFusion6C_LadderInfo.xml",),
    "genemarker": ("dnanet/panel.xml",),
}
#: 2800M Control DNA as its maker publishes it (Promega, PowerPlex Fusion 6C System, technical manual).
GENOTYPE_OF_2800M = {
    "AMEL": ("X", "Y"), "D3S1358": ("17", "18"), "D1S1656": ("12", "13"), "D2S441": ("10", "14"),
    "D10S1248": ("13", "15"), "D13S317": ("9", "11"), "Penta E": ("7", "14"), "D16S539": ("9", "13"),
    "D18S51": ("16", "18"), "D2S1338": ("22", "25"), "CSF1PO": ("12",), "Penta D": ("12", "13"), "TH01": ("6", "9.3"),
    "vWA": ("16", "19"), "D21S11": ("29", "31.2"), "D7S820": ("8", "11"), "D5S818": ("12",), "TPOX": ("11",),
    "D8S1179": ("14", "15"), "D12S391": ("18", "23"), "D19S433": ("13", "14"), "SE33": ("15", "16"),
    "D22S1045": ("16",), "DYS391": ("10",), "FGA": ("20", "23"), "DYS576": ("18",), "DYS570": ("17",),
}  # fmt: skip

#: Marks of modules that read these runs.
REAL = [
    pytest.mark.real,
    pytest.mark.skipif(
        not FOLDER.is_dir(), reason="the real sample data (../shared/data beside the repository) is absent"
    ),
]


pytestmark = REAL


def path_of(run: str) -> Path:
    return FOLDER / f"PPF6C_{run}.hid"


@cache
def sized(run: str) -> tuple[HidFile, Sizing]:
    hid = read_hid(path_of(run))
    return hid, size_run(hid)


@cache
def ladder(maker: str) -> LadderFit:
    return fit_ladder(*sized("ladder"), read_panel(*(FOLDER / name for name in PANELS[maker])))


@each_row("run", RUNS)
def test_dyes_have_the_traces_of_their_channels(run: str) -> None:
    hid = sized(run)[0]
    assert [dye.name for dye in hid.dyes] == ["6-FAM", "VIC", "NED", "PET", "LIZ", "SID"]
    assert [dye.wavelength_nm for dye in hid.dyes] == [522, 554, 575, 595, 655, 620]
    for dye, raw, analysed in zip(hid.dyes, (1, 2, 3, 4, 105, 106), (9, 10, 11, 12, 205, 206), strict=True):
        assert (dye.raw == hid.tags["DATA", raw]).all()
        assert (dye.analysed == hid.tags["DATA", analysed]).all()
    assert hid.n_scans == hid.tags["SCAN", 1] == hid.tags["Scan", 1]
    assert (hid.run.model, hid.run.injection_s, hid.run.injection_voltage_v) == ("3500", 15, 1_200)
    assert (hid.run.size_standard, hid.run.size_standard_channel) == ("WEN ILS 500", 5)


@each_row("run", RUNS)
def test_every_inline_scalar_is_right(run: str) -> None:
    tags, compared = sized(run)[0].tags, 0
    for entries in (header_entries(path_of(run))[1], plain_entries(path_of(run))[1]):
        for entry in entries:
            if entry.is_inline_scalar:
                assert tags[entry.name, entry.number] == entry.inline_scalar(), (entry.name, entry.number)
                compared += 1
    assert compared > 60


@each_row("run", RUNS)
def test_traces_and_other_values_are_the_plain_bytes(run: str) -> None:
    data, entries = plain_entries(path_of(run))
    tags, compared = sized(run)[0].tags, 0
    assert len(entries) == len(tags) == 174
    assert sum((entry.name, entry.kind) == ("DATA", 4) for entry in entries) == 16
    for entry in entries:
        value, stored = tags[entry.name, entry.number], entry.stored(data)
        if (entry.name, entry.kind) == ("CkSm", 19):  # each directory has its own
            continue
        match entry.kind:
            case 18:
                assert value.encode("latin-1") == stored[1 : 1 + stored[0]]
            case 19:
                assert value.encode("latin-1") + b"\0" == stored
            case 2 | 1024:
                assert value == stored
            case 4 | 5 | 7 | 8:
                code = {4: ">i2", 5: ">i4", 7: ">f4", 8: ">f8"}[entry.kind]
                assert np.asarray(value).astype(code).tobytes() == stored
            case _:
                continue
        compared += 1
    assert compared > 150


@each_row("run", RUNS)
def test_the_size_standard_fits(run: str) -> None:
    hid, sizing = sized(run)
    assert sizing.missing_bp == ()
    assert len(sizing.sizes_bp) == 21
    assert np.abs(sizing.residuals_bp).max() < 0.5
    assert sizing.r_squared > 0.99999
    inside = slice(int(sizing.scans[0]) + 1, int(sizing.scans[-1]))
    # SMap 2 is the size of each scan as the instrument's own software computed it.
    assert np.abs(hid.tags["SMap", 2] - sizing.scaler)[inside].max() < 0.1


@each_row("maker", PANELS)
def test_every_ladder_allele_of_every_locus_is_assigned(maker: str) -> None:
    fit = ladder(maker)
    assert fit.is_complete
    assert len(fit.panel.loci) == 27
    assert sum(map(len, fit.sizes_bp.values())) == 433
    assert fit.sizes_bp == {name: dict(sizes) for name, sizes in ladder("genemapper").sizes_bp.items()}


def test_the_ladder_is_that_of_dnanets_list() -> None:
    rows = [line.rsplit(",", 2) for line in (FOLDER / "dnanet" / "ladder_alleles.csv").read_text().splitlines()[1:]]
    assert len(rows) == 433
    assert {(locus, allele) for locus, allele, _ in rows} == {
        (locus, allele) for locus, sizes in ladder("genemapper").sizes_bp.items() for allele in sizes
    }


def genotype(run: str, maker: str) -> dict[str, tuple[str, ...]]:
    return call_alleles(*sized(run), ladder(maker).panel).genotype


@each_row("maker", PANELS)
def test_the_control_has_its_published_genotype(maker: str) -> None:
    assert genotype("2800M", maker) == GENOTYPE_OF_2800M
    if maker == "genemapper":
        assert {locus.name: locus.control for locus in ladder(maker).panel.loci} == GENOTYPE_OF_2800M


@each_row("run", DONORS)
def test_a_donor_is_the_same_person_with_the_bins_of_two_makers(run: str) -> None:
    calls = call_alleles(*sized(run), ladder("genemapper").panel)
    alleles = calls.genotype
    assert alleles == genotype(run, "genemarker")
    assert all(len(own) in {1, 2} for locus, own in alleles.items() if not locus.startswith("DYS"))
    y_loci = {len(own) for locus, own in alleles.items() if locus.startswith("DYS")}
    assert y_loci == ({1} if alleles["AMEL"] == ("X", "Y") else {0})
    off = [peak for peak in calls.peaks if peak.is_allele and PeakFlag.OFF_LADDER not in peak.flags]
    assert all(abs(peak.distance_bp) < 0.5 for peak in off)
