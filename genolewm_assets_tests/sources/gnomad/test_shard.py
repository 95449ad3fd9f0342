"""gnomAD shards of a toy genome: what is kept, dropped or rejected, what is an error; one row from every release."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from genolewm_assets.errors import ConfigurationError, UnknownContigError, VcfError
from genolewm_assets.sources.gnomad.shard import GnomadParams, write_empty_shard
from genolewm_assets.variants.schema import ANCESTRY_GROUPS, GNOMAD_VARIANTS
from genolewm_assets.variants.shard import REJECTS_FILE, VARIANTS_FILE
from genolewm_assets_tests.worlds.sources.gnomad_headers import HEADERS
from genolewm_assets_tests.worlds.sources.gnomad_world import PLAIN, build, snv


def test_what_filter_af_and_an_drop_is_counted(tmp_path: Path) -> None:
    records = [
        snv("AF=0.5;AC=50;AN=100"),
        snv("AF=0.01;AC=1;AN=100", alt="A"),
        snv("AF=0.0099;AC=1;AN=100", pos=4, ref="A"),
        snv("AF=0.5;AC=50;AN=1000", filters="AC0", pos=4, ref="A", alt="C"),
        snv("AF=0.5;AC=50;AN=100", filters="AC0;RF", pos=4, ref="A", alt="G"),
        snv("AF=0.5;AC=50;AN=100", filters=".", pos=5, ref="T", alt="G"),
        snv("AN=0", pos=5, ref="T", alt="C"),
        ("chrX", 3, ".", "G", "T", "PASS", "AF=0.5;AC=50;AN=100"),
        ("chr5", 3, ".", "G", "T", "PASS", "AF=0.5;AC=50;AN=100"),
    ]
    # The largest AN, 1,000, stands in a record that its FILTER drops.
    rows, counts, _ = build(tmp_path, records, info=PLAIN, min_an_fraction=0.1)
    assert [(row["pos"], row["ref"], row["alt"], row["af"]) for row in rows] == [
        (3, "G", "A", 0.01),
        (3, "G", "T", 0.5),
    ]
    reasons = {"other_contig": 2, "filter": 2, "unfiltered": 1, "no_af": 1, "low_af": 1}
    expected = {"records": 9, "alleles_in": 9, "kept": 2, "rejected": 0, "filtered": 7, "an_unknown": 0}
    assert counts == expected | {f"filtered.{reason}": n for reason, n in reasons.items()}
    rows, counts, _ = build(tmp_path, records, info=PLAIN, min_an_fraction=0.11, accept_unfiltered=True)
    assert rows == []
    assert counts["filtered.low_an"] == 3


def test_alleles_of_a_record_are_judged_and_placed_one_by_one(tmp_path: Path) -> None:
    record = (
        *("17", 8, "rs1;rs2", "TTC", "TC,TTTC,*,TTR,GTC", "PASS"),
        *("AF=0.2,0.001,0.3,0.4,0.05;AC=20,1,30,40,5;AN=100",),
    )
    rows, counts, rejects = build(tmp_path, [record], info=PLAIN)
    assert [(row["chrom"], row["pos"], row["ref"], row["alt"], row["af"], row["ac"], row["rsid"]) for row in rows] == [
        ("chr17", 4, "AT", "A", 0.2, 20, "rs1;rs2"),
        ("chr17", 8, "T", "G", 0.05, 5, "rs1;rs2"),
    ]
    reasons = {"rejected.iupac": 1, "rejected.spanning_deletion": 1, "filtered.low_af": 1}
    assert {name: n for name, n in counts.items() if "." in name} == reasons
    assert [(r["file"], r["chrom"], r["pos"], r["ref"], r["alt"], r["reason"]) for r in rejects] == [
        ("in.vcf", "17", 8, "TTC", "*", "spanning_deletion"),
        ("in.vcf", "17", 8, "TTC", "TTR", "iupac"),
    ]


def test_rejects(tmp_path: Path) -> None:
    records = [
        snv("AN=100", alt="."),
        snv("AF=0.5;AC=50;AN=100", ref="A"),
        snv("AF=0.5;AC=50;AN=100", alt="<DEL>"),
        snv("AF=0.5;AC=50;AN=100", pos=99),
        snv("AF=0.5;AC=50;AN=100"),
        snv("AF=0.6;AC=60;AN=100"),
        snv("AF=0.001;AC=1;AN=100", alt="N"),
    ]
    rows, counts, rejects = build(tmp_path, records, info=PLAIN)
    assert [row["af"] for row in rows] == [0.6]
    assert [(row["line"], row["reason"]) for row in rejects] == [
        (6, "missing_alt"),
        (7, "ref_mismatch"),
        (8, "symbolic"),
        (9, "out_of_range"),
        (10, "duplicate"),
    ]
    assert counts["filtered.low_af"] == 1


def test_frequency_that_is_left_out_follows_from_counts(tmp_path: Path) -> None:
    rows, _, _ = build(tmp_path, [snv("AC=25;AN=100"), snv("AF=.;AC=0;AN=0", alt="A")], info=PLAIN)
    assert [(row["alt"], row["af"]) for row in rows] == [("T", 0.25)]


def test_circular_contig_keeps_every_site(tmp_path: Path) -> None:
    info = [f"{name}:1:Integer" for name in ("AC_hom", "AC_het", "AN")]
    info += [f"{name}:1:Float" for name in ("AF_hom", "AF_het", "max_hl")]
    groups = "##INFO=<ID=pop_AF_hom,Number=1,Type=String,Description=\"..., population order: ['afr', 'oth']\">"
    records = [
        (
            *("MT", 3, ".", "G", "T", "PASS"),
            *("AC_hom=40;AC_het=2;AF_hom=0.4;AF_het=0.02;AN=100;max_hl=1;pop_AF_hom=0.5|0.25",),
        ),
        ("MT", 3, ".", "G", "A", "npg", "AC_hom=0;AC_het=0;AF_hom=0.00000;AF_het=0;AN=10;max_hl=0"),
        ("MT", 4, ".", "A", "N", "artifact_prone_site;npg", "AC_hom=0;AC_het=0;AF_hom=0;AF_het=0;AN=10;max_hl=0"),
    ]
    rows, counts, rejects = build(tmp_path, records, info=info, contig="chrM", meta=(groups,))
    assert [(row["chrom"], row["alt"], row["filter"], row["af"]) for row in rows] == [
        ("chrM", "A", "npg", 0.0),
        ("chrM", "T", "PASS", 0.4),
    ]
    top = rows[1]
    assert (top["ac"], top["an"], top["ac_het"], top["af_het"], top["max_hl"]) == (40, 100, 2, 0.02, 1.0)
    assert (top["af_afr"], top["af_remaining"], top["af_eas"], top["hemizygote_count"]) == (0.5, 0.25, None, None)
    assert [row["reason"] for row in rejects] == ["iupac"]
    assert counts["filtered"] == 0


def test_all_contigs_in_one_file_in_the_genomes_order(tmp_path: Path) -> None:
    records = [
        ("chrX", 9, ".", "T", "TT", "PASS", "AF=0.5;AC=5;AN=10"),
        ("17", 5, ".", "T", "G", "PASS", "AF=0.5;AC=5;AN=10"),
        ("chrX", 1, ".", "A", "C", "PASS", "AF=0.5;AC=500;AN=1000"),
        ("17", 3, ".", "G", "A", "PASS", "AF=0.5;AC=5;AN=10"),
    ]
    rows, counts, _ = build(tmp_path, records, info=PLAIN, contig=None, reference=None)
    assert [(row["chrom"], row["pos"], row["alt"]) for row in rows] == [
        ("chr17", 3, "A"),
        ("chr17", 5, "G"),
        ("chrX", 1, "C"),
    ]
    # The AN bound is each contig's own; without a reference nothing is left-aligned.
    assert counts["filtered.low_an"] == 1


def test_wrong_file_for_the_contig(tmp_path: Path) -> None:
    with pytest.raises(VcfError, match=r"no record is on a requested contig: expected 'chr17', got 'chrX'"):
        build(tmp_path, [("chrX", 3, ".", "G", "T", "PASS", "AF=0.5")], info=PLAIN)
    with pytest.raises(VcfError, match=r"no record is on a requested contig: expected .*'chrY', got 'chr5'"):
        build(tmp_path, [("chr5", 3, ".", "G", "T", "PASS", "AF=0.5")], info=PLAIN, contig=None)


def test_bad_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownContigError, match=r"in\.vcf, line 6: .*'chrZZ'"):
        build(tmp_path, [("chrZZ", 3, ".", "G", "T", "PASS", "AF=0.5")], info=PLAIN)
    with pytest.raises(ConfigurationError, match=r"gnomad\.min_af: is out of range: expected 0 to 1, got 1\.5"):
        GnomadParams(min_af=1.5)


def test_declared_empty_shard(tmp_path: Path) -> None:
    report = write_empty_shard(tmp_path)
    assert report.rows == {VARIANTS_FILE: 0, REJECTS_FILE: 0}
    assert set(report.counts.values()) == {0}
    assert pq.read_table(tmp_path / VARIANTS_FILE).schema.equals(GNOMAD_VARIANTS.arrow)


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
    ("release", "names", "missing"),
    [
        ("v2.1.1 exomes", ("", "_", "oth", "popmax", "male"), {"ami", "mid"}),
        ("v2.1.1 genomes", ("", "_", "oth", "popmax", "male"), {"ami", "mid", "sas"}),
        ("v3.0 genomes", ("", "_", "oth", None, "male"), {"mid"}),
        ("v3.1 genomes", ("", "-", "oth", "popmax", "XY"), set()),
        ("v3.1.2 genomes", ("", "_", "oth", "popmax", "XY"), set()),
        ("v4.0 exomes", ("", "_", "remaining", "grpmax", "XY"), {"ami"}),
        ("v4.0 genomes", ("", "_", "remaining", "grpmax", "XY"), set()),
        ("v4.1 exomes", ("", "_", "remaining", "grpmax", "XY"), {"ami"}),
        ("v4.1 genomes", ("", "_", "remaining", "grpmax", "XY"), set()),
        ("v4.1 joint", ("_joint", "_", "remaining", "grpmax", "XY"), set()),
    ],
)
def test_all_releases_give_the_same_row(
    tmp_path: Path, release: str, names: tuple[str, str, str, str | None, str], missing: set[str]
) -> None:
    infix, join, rest, top, xy = names
    flags: dict[str, object] = {
        name: True for name in ("lcr", "non_par", "nonpar") if f"{name}:0:Flag" in HEADERS[release]
    }
    given: dict[str, object] = {f"AF{infix}": 0.15, f"AC{infix}": 15, f"AN{infix}": 100, f"nhomalt{infix}": 3}
    given |= {f"AF{infix}{join}{group}": af for group, af in (("afr", 0.2), ("eas", 0.1), (rest, 0.05))}
    given |= {f"AC{infix}{join}{xy}": 7, **({f"{top}{infix}": "afr", f"AF_{top}{infix}": 0.2} if top else {}), **flags}
    record = ("chrX", 3, "rs9", "G", "T", "PASS", values(release, given))
    (row,), counts, _ = build(tmp_path, [record], info=HEADERS[release], contig="chrX")
    assert counts["kept"] == 1
    expected = {"chrom": "chrX", "pos": 3, "rsid": "rs9", "filter": "PASS", "af": 0.15, "ac": 15, "an": 100}
    expected |= {"af_afr": 0.2, "af_eas": 0.1, "af_remaining": 0.05, "af_fin": 0.0, "af_het": None}
    expected |= {"grpmax": "afr" if top else None, "af_grpmax": 0.2 if top else None}
    expected |= {"hemizygote_count": 7 if flags else None, **dict.fromkeys(("lcr", "non_par"), True if flags else None)}
    expected |= {"nhomalt": 3, "segdup": None if infix or release.startswith("v3.0") else False}
    assert {name: row[name] for name in expected} == expected
    assert {group for group in ANCESTRY_GROUPS if row[f"af_{group}"] is None} == missing


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
