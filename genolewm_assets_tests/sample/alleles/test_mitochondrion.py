from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from genolewm_assets_tests.referees.census import GNOMAD_FILES, read_rows, reject_reason


@pytest.fixture(scope="module")
def rows(sample_dir: Path) -> list[tuple[list[str], dict[str, str]]]:
    return list(read_rows(sample_dir / "gnomad" / GNOMAD_FILES["chrM"]))


def test_frequencies_are_counts_over_samples(rows: list[tuple[list[str], dict[str, str]]]) -> None:
    for _, info in rows:
        an = int(info["AN"])
        assert 56_000 < an <= 56_434
        for kind in ("hom", "het"):
            assert f"{int(info[f'AC_{kind}']) / an:.5e}" == info[f"AF_{kind}"]
        assert int(info["AC_hom"]) + int(info["AC_het"]) <= an


def test_highest_heteroplasmy_agrees_with_the_carriers(rows: list[tuple[list[str], dict[str, str]]]) -> None:
    for columns, info in rows:
        level, hom, het = float(info["max_hl"]), int(info["AC_hom"]), int(info["AC_het"])
        if "npg" in columns[6]:
            assert (level, hom, het) == (0, 0, 0)
        assert (level >= 0.95) == (hom > 0)
        assert level <= 1


def test_sites_pass_and_fail_as_in_the_public_file(rows: list[tuple[list[str], dict[str, str]]]) -> None:
    filters = Counter(columns[6] for columns, _ in rows)
    assert set(filters) == {"PASS", "npg", "artifact_prone_site", "indel_stack", "artifact_prone_site;npg"}
    assert 0.55 < filters["PASS"] / len(rows) < 0.7
    common = sum(c[6] == "PASS" and float(info["AF_hom"]) >= 0.01 for c, info in rows)
    assert common >= 50


def test_one_record_deletes_the_unknown_base(
    rows: list[tuple[list[str], dict[str, str]]], sequences: dict[str, str]
) -> None:
    touching = [c for c, _ in rows if int(c[1]) <= 3_107 < int(c[1]) + len(c[3])]
    assert [(int(c[1]), c[3][1:], c[4]) for c in touching] == [(3_106, "N", sequences["chrM"][3_105])]
    assert reject_reason(int(touching[0][1]), touching[0][3], touching[0][4], sequences["chrM"]) == "ref_not_acgt"
