"""The same row from every release of gnomAD, whatever its INFO fields are called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from genolewm_assets_tests.worlds.sources.gnomad_headers import HEADERS
from genolewm_assets_tests.worlds.sources.gnomad_world import build, snv


def values(release: str, given: Mapping[str, object]) -> str:
    """Return an INFO column with the given fields and 0 in every other count and frequency of a release."""
    flags = [name for name, given_value in given.items() if given_value is True]
    parts = [f"{name}={value}" for name, value in given.items() if value is not True]
    for item in HEADERS[release]:
        name, _, kind = item.split(":")
        if name not in given and kind in {"Integer", "Float"}:
            parts.append(f"{name}=0")
    return ";".join([*reversed(parts), *flags])


@pytest.mark.parametrize(
    ("release", "names"),
    [
        ("v2.1.1 exomes", ("", "oth", "popmax", "male")),
        ("v2.1.1 genomes", ("", "oth", "popmax", "male")),
        ("v3.0 genomes", ("", "oth", None, "male")),
        ("v3.1.2 genomes", ("", "oth", "popmax", "XY")),
        ("v4.0 exomes", ("", "remaining", "grpmax", "XY")),
        ("v4.1 exomes", ("", "remaining", "grpmax", "XY")),
        ("v4.1 genomes", ("", "remaining", "grpmax", "XY")),
        ("v4.1 joint", ("_joint", "remaining", "grpmax", "XY")),
    ],
)
def test_every_release_gives_the_same_row(
    tmp_path: Path, release: str, names: tuple[str, str, str | None, str]
) -> None:
    infix, rest, top, xy = names
    flags: dict[str, object] = {
        name: True for name in ("lcr", "non_par", "nonpar") if f"{name}:0:Flag" in HEADERS[release]
    }
    given = {
        f"AF{infix}": 0.15,
        f"AC{infix}": 15,
        f"AN{infix}": 100,
        f"nhomalt{infix}": 3,
        f"AF{infix}_afr": 0.2,
        f"AF{infix}_eas": 0.1,
        f"AF{infix}_{rest}": 0.05,
        f"AC{infix}_{xy}": 7,
        **({f"{top}{infix}": "afr", f"AF_{top}{infix}": 0.2} if top else {}),
        **flags,
    }
    record = ("chrX", 3, "rs9", "G", "T", "PASS", values(release, given))
    (row,), counts, _ = build(tmp_path, [record], info=HEADERS[release], contig="chrX")
    assert counts["kept"] == 1
    expected = {
        "chrom": "chrX",
        "pos": 3,
        "rsid": "rs9",
        "filter": "PASS",
        "af": 0.15,
        "ac": 15,
        "an": 100,
        "nhomalt": 3,
        "hemizygote_count": 7 if flags else None,
        "grpmax": "afr" if top else None,
        "af_grpmax": 0.2 if top else None,
        "af_afr": 0.2,
        "af_eas": 0.1,
        "af_remaining": 0.05,
        "af_fin": 0.0,
        "af_het": None,
        "lcr": True if flags else None,
        "segdup": None if infix or release.startswith("v3.0") else False,
        "non_par": True if flags else None,
    }
    assert {name: row[name] for name in expected} == expected


def test_nobody_is_hemizygous_on_an_autosome_or_in_a_pseudo_autosomal_region(tmp_path: Path) -> None:
    info = values("v4.1 exomes", {"AF": 0.1, "AC": 10, "AN": 100, "AC_XY": 4})
    for chrom in ("chr17", "chrX"):
        (row,), _, _ = build(
            tmp_path, [(chrom, 3, ".", "G", "T", "PASS", info)], info=HEADERS["v4.1 exomes"], contig=chrom
        )
        assert row["hemizygote_count"] == 0


JOINT = {"AF_joint": 0.1, "AC_joint": 30, "AN_joint": 300, "AN_exomes": 200, "AN_genomes": 100}
JOINT_RECORDS = [
    ("PASS", "A", JOINT),
    ("EXOMES_FILTERED", "C", {**JOINT, "AF_genomes": 0.3, "AC_genomes": 30, "AN_genomes": 100, "AF_genomes_afr": 0.4}),
    ("GENOMES_FILTERED", "T", {**JOINT, "AF_exomes": 0.2, "AC_exomes": 40, "AN_exomes": 200}),
    ("BOTH_FILTERED", "AA", JOINT),
    ("EXOMES_FILTERED;GENOMES_FILTERED", "CC", JOINT),
    ("GENOMES_FILTERED", "TT", {**JOINT, "AF_exomes": 0.2, "AC_exomes": 4, "AN_exomes": 20}),
    ("EXOMES_FILTERED", "GG", JOINT),
]


def test_joint_records_that_a_data_type_fails(tmp_path: Path) -> None:
    release = "v4.1 joint"
    records = [snv(values(release, given), filters=filters, alt=alt) for filters, alt, given in JOINT_RECORDS]
    rows, counts, _ = build(tmp_path, records, info=HEADERS[release])
    assert [(row["alt"], row["af"], row["filter"]) for row in rows] == [("A", 0.1, "PASS")]
    assert counts["filtered.filter"] == 6
    rows, counts, _ = build(tmp_path, records, info=HEADERS[release], joint_rescue=True)
    assert [(row["alt"], row["af"], row["an"], row["af_afr"], row["filter"]) for row in rows] == [
        ("A", 0.1, 300, 0.0, "PASS"),
        ("C", 0.3, 100, 0.4, "EXOMES_FILTERED"),
        ("T", 0.2, 200, 0.0, "GENOMES_FILTERED"),
    ]
    # AN is compared with the largest AN of the same data type.
    assert counts["filtered.low_an"] == 1
    assert counts["filtered.filter"] == 2
    assert counts["filtered.low_af"] == 1
