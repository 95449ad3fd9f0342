from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pysam.bcftools
import pytest

from genolewm_assets.errors import ConfigurationError, UnknownContigError, VcfError
from genolewm_assets.genome import GRCH38, Contig, ContigSet
from genolewm_assets.lewm.schema import ANCESTRY_GROUPS, GNOMAD_VARIANTS, REJECTS
from genolewm_assets.sources.gnomad import (
    GnomadParams,
    build_gnomad_shard,
    write_empty_shard,
)
from genolewm_assets.sources.shard_file import REJECTS_FILE, VARIANTS_FILE
from genolewm_assets_tests.sources.gnomad_headers import HEADERS
from genolewm_assets_tests.sources.vcf_files import vcf_text, write_text

Reference = Callable[[Contig], bytes]
RealBuild = Callable[..., tuple[Mapping[str, int], pa.Table]]
SEQUENCE = b"ACGATTTTTCACACACGTAGCTAGCTAGGATC"
TOY = ContigSet(
    [
        Contig("chr17", len(SEQUENCE), aliases=("17",)),
        Contig("chrX", len(SEQUENCE), aliases=("X",)),
        Contig("chrM", len(SEQUENCE), circular=True, aliases=("MT",)),
    ]
)
PLAIN = ["AF:A:Float", "AC:A:Integer", "AN:1:Integer"]


def build(
    folder: Path,
    records: Sequence[tuple[object, ...]],
    *,
    info: list[str],
    contig: str | None = "chr17",
    reference: Reference | None = lambda _: SEQUENCE,
    meta: tuple[str, ...] = (),
    **params: float | bool,
) -> tuple[list[dict[str, object]], Mapping[str, int], list[dict[str, object]]]:
    """Build from records; return rows, counts and rejects."""
    report = build_gnomad_shard(
        write_text(folder / "in.vcf", vcf_text(records, info=info, meta=meta)),
        contig=None if contig is None else TOY[contig],
        contigs=TOY,
        reference=reference,
        params=GnomadParams(**params),  # type: ignore[arg-type]
        out_dir=folder / "out",
    )
    rows = pq.read_table(folder / "out" / VARIANTS_FILE)
    rejects = pq.read_table(folder / "out" / REJECTS_FILE)
    assert rows.schema.equals(GNOMAD_VARIANTS.arrow)
    assert rejects.schema.equals(REJECTS.arrow)
    assert report.rows == {VARIANTS_FILE: rows.num_rows, REJECTS_FILE: rejects.num_rows}
    counts = report.counts
    assert counts["alleles_in"] == counts["kept"] + counts["rejected"] + counts["filtered"]
    assert not list((folder / "out").glob(".spool*"))
    return rows.to_pylist(), counts, rejects.to_pylist()


def snv(info: str, *, filters: str = "PASS", pos: int = 3, ref: str = "G", alt: str = "T") -> tuple[object, ...]:
    return ("chr17", pos, "rs1", ref, alt, filters, info)


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
    assert counts == {
        "records": 9,
        "alleles_in": 9,
        "kept": 2,
        "rejected": 0,
        "filtered": 7,
        "filtered.other_contig": 2,
        "filtered.filter": 2,
        "filtered.unfiltered": 1,
        "filtered.no_af": 1,
        "filtered.low_af": 1,
        "an_unknown": 0,
    }
    rows, counts, _ = build(tmp_path, records, info=PLAIN, min_an_fraction=0.11, accept_unfiltered=True)
    assert rows == []
    assert counts["filtered.low_an"] == 3


def test_alleles_of_a_record_are_judged_and_placed_one_by_one(tmp_path: Path) -> None:
    record = (
        "17",
        8,
        "rs1;rs2",
        "TTC",
        "TC,TTTC,*,TTR,GTC",
        "PASS",
        "AF=0.2,0.001,0.3,0.4,0.05;AC=20,1,30,40,5;AN=100",
    )
    rows, counts, rejects = build(tmp_path, [record], info=PLAIN)
    assert [(row["chrom"], row["pos"], row["ref"], row["alt"], row["af"], row["ac"], row["rsid"]) for row in rows] == [
        ("chr17", 4, "AT", "A", 0.2, 20, "rs1;rs2"),
        ("chr17", 8, "T", "G", 0.05, 5, "rs1;rs2"),
    ]
    assert {name: n for name, n in counts.items() if "." in name} == {
        "rejected.iupac": 1,
        "rejected.spanning_deletion": 1,
        "filtered.low_af": 1,
    }
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


def test_an_unknown(tmp_path: Path) -> None:
    rows, counts, _ = build(tmp_path, [snv("AF=0.5"), snv("AF=0.4", alt="A")], info=["AF:A:Float"])
    assert [(row["ac"], row["an"]) for row in rows] == [(None, None)] * 2
    assert counts["an_unknown"] == 2


def test_frequency_that_is_left_out_follows_from_counts(tmp_path: Path) -> None:
    rows, _, _ = build(tmp_path, [snv("AC=25;AN=100"), snv("AF=.;AC=0;AN=0", alt="A")], info=PLAIN)
    assert [(row["alt"], row["af"]) for row in rows] == [("T", 0.25)]


def values(release: str, given: Mapping[str, object]) -> str:
    """Return an INFO column with the given fields and 0 in every other count and frequency of a release."""
    flags = [name for name, given_value in given.items() if given_value is True]
    parts = [f"{name}={value}" for name, value in given.items() if value is not True]
    for item in HEADERS[release]:
        name, _, kind = item.split(":")
        if name not in given and kind in {"Integer", "Float"}:
            parts.append(f"{name}=0")
    return ";".join([*reversed(parts), *flags])


GROUPS = {"afr": 0.2, "eas": 0.1}


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


JOINT = {"AF_joint": 0.1, "AC_joint": 30, "AN_joint": 300}
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


def test_circular_contig_keeps_every_site(tmp_path: Path) -> None:
    info = [
        "AC_hom:1:Integer",
        "AC_het:1:Integer",
        "AF_hom:1:Float",
        "AF_het:1:Float",
        "AN:1:Integer",
        "max_hl:1:Float",
    ]
    groups = "##INFO=<ID=pop_AF_hom,Number=1,Type=String,Description=\"..., population order: ['afr', 'oth']\">"
    records = [
        (
            "MT",
            3,
            ".",
            "G",
            "T",
            "PASS",
            "AC_hom=40;AC_het=2;AF_hom=0.4;AF_het=0.02;AN=100;max_hl=1;pop_AF_hom=0.5|0.25",
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


def test_same_bytes_whatever_the_order_of_records(tmp_path: Path) -> None:
    draw = random.Random(5)
    records = [
        snv(f"AF={draw.random():.4f};AC={at};AN=100", pos=draw.randint(1, 30), alt=draw.choice("ACGT"), ref=ref)
        for at, ref in enumerate(draw.choices("ACGT", k=400))
    ]
    digests = set()
    for _ in range(3):
        build(tmp_path, records, info=PLAIN, min_an_fraction=0.0)
        digests.add(hashlib.sha256((tmp_path / "out" / VARIANTS_FILE).read_bytes()).hexdigest())
        draw.shuffle(records)
    assert len(digests) == 1


def test_wrong_file_for_the_contig(tmp_path: Path) -> None:
    with pytest.raises(VcfError, match=r"none of the records is on a contig wanted: expected 'chr17', got 'chrX'"):
        build(tmp_path, [("chrX", 3, ".", "G", "T", "PASS", "AF=0.5")], info=PLAIN)
    with pytest.raises(VcfError, match=r"none of the records is on a contig wanted: expected .*'chrX', got 'chr5'"):
        build(tmp_path, [("chr5", 3, ".", "G", "T", "PASS", "AF=0.5")], info=PLAIN, contig=None)


def test_a_file_without_a_record_is_no_source(tmp_path: Path) -> None:
    for contig in ("chr17", None):
        with pytest.raises(VcfError, match=r"in\.vcf: the file holds no record"):
            build(tmp_path, [], info=PLAIN, contig=contig)


def test_bad_input_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnknownContigError, match=r"in\.vcf, line 6: .*'chrZZ'"):
        build(tmp_path, [("chrZZ", 3, ".", "G", "T", "PASS", "AF=0.5")], info=PLAIN)
    with pytest.raises(VcfError, match=r"in\.vcf, line 6: INFO/AF cannot be read"):
        build(tmp_path, [snv("AF=much")], info=PLAIN)
    with pytest.raises(VcfError, match="no allele frequency of a known gnomAD layout"):
        build(tmp_path, [snv("AF=0.5")], info=["DP:1:Integer"])
    with pytest.raises(VcfError, match="length of another assembly"):
        build(tmp_path, [snv("AF=0.5")], info=PLAIN, meta=("##contig=<ID=chr17,length=81195210>",))
    with pytest.raises(ConfigurationError, match=r"gnomad\.min_af: is out of range: expected 0 to 1, got 1\.5"):
        GnomadParams(min_af=1.5)


def test_declared_empty_shard(tmp_path: Path) -> None:
    report = write_empty_shard(tmp_path)
    assert report.rows == {VARIANTS_FILE: 0, REJECTS_FILE: 0}
    assert set(report.counts.values()) == {0}
    assert pq.read_table(tmp_path / VARIANTS_FILE).schema.equals(GNOMAD_VARIANTS.arrow)


@pytest.fixture(scope="session")
def real(shared_data: Path, sliced_contigs: ContigSet, sliced_reference: Reference) -> RealBuild:
    """Return what builds a shard of a real file."""

    def run(pattern: str, contig: str, out: Path, **params: float | bool) -> tuple[Mapping[str, int], pa.Table]:
        report = build_gnomad_shard(
            next((shared_data / "gnomad").rglob(pattern)),
            contig=sliced_contigs[contig],
            contigs=sliced_contigs,
            reference=sliced_reference,
            params=GnomadParams(**params),  # type: ignore[arg-type]
            out_dir=out,
        )
        return report.counts, pq.read_table(out / VARIANTS_FILE)

    return run


def keys(table: pa.Table) -> list[tuple[str, int, str, str]]:
    return list(zip(*(table[name].to_pylist() for name in ("chrom", "pos", "ref", "alt")), strict=True))


def norm_keys(path: Path, fasta: Path, expression: str, folder: Path) -> list[tuple[str, int, str, str]]:
    """Return the keys that bcftools selects, splits and normalises, sorted."""
    selected = write_text(folder / "selected.vcf", str(pysam.bcftools.view("-i", expression, str(path))))
    text = str(pysam.bcftools.norm("-f", str(fasta), "-m", "-any", str(selected)))
    columns = (line.split("\t")[:5] for line in text.splitlines() if not line.startswith("#"))
    return sorted((chrom, int(pos), ref, alt) for chrom, pos, _, ref, alt in columns)


def test_real_joint_chr17(shared_data: Path, real: RealBuild, sliced_fasta: Path, tmp_path: Path) -> None:
    counts, table = real("*v4.1*chr17.vcf.bgz", "chr17", tmp_path)
    assert counts == {
        "records": 5795,
        "alleles_in": 5795,
        "kept": 21,
        "rejected": 0,
        "filtered": 5774,
        "filtered.filter": 50,
        "filtered.low_af": 5718,
        "filtered.low_an": 6,
        "an_unknown": 0,
    }
    path = next((shared_data / "gnomad").rglob("*v4.1*chr17.vcf.bgz"))
    largest = 1_614_272
    theirs = norm_keys(path, sliced_fasta, f'FILTER="PASS" && AF>=0.01 && AN>={largest // 2}', tmp_path)
    assert keys(table) == theirs


def test_every_real_allele_equals_bcftools_norm(
    shared_data: Path, real: RealBuild, sliced_fasta: Path, tmp_path: Path
) -> None:
    pattern = "*v4.1*chr17.vcf.bgz"
    counts, table = real(pattern, "chr17", tmp_path, min_af=0.0, min_an_fraction=0.0)
    assert counts["kept"] == 5745
    path = next((shared_data / "gnomad").rglob(pattern))
    assert keys(table) == norm_keys(path, sliced_fasta, 'FILTER="PASS"', tmp_path)


def test_real_exomes_chr21(shared_data: Path, real: RealBuild, sliced_fasta: Path, tmp_path: Path) -> None:
    pattern = "*r2.0.1*.bgz"
    counts, table = real(pattern, "chr21", tmp_path, accept_unfiltered=True)
    assert counts["alleles_in"] == 1722
    assert counts["kept"] == counts["an_unknown"] == 20
    assert counts["filtered.low_af"] == 1702
    assert set(table["filter"].to_pylist()) == {"."}
    path = next((shared_data / "gnomad").rglob(pattern))
    assert keys(table) == norm_keys(path, sliced_fasta, "AF>=0.01", tmp_path)
    strict, _ = real(pattern, "chr21", tmp_path)
    assert strict["filtered.unfiltered"] == 1722


def test_real_unsorted_genomes(shared_data: Path, real: RealBuild, sliced_fasta: Path, tmp_path: Path) -> None:
    pattern = "*r3.0*.bgz"
    counts, table = real(pattern, "chr17", tmp_path, min_af=0.0, min_an_fraction=0.0)
    assert counts["alleles_in"] == 178
    assert counts["filtered.filter"] == 11
    path = next((shared_data / "gnomad").rglob(pattern))
    assert keys(table) == norm_keys(path, sliced_fasta, 'FILTER="PASS"', tmp_path)
    assert table["af_remaining"].null_count == 0
    assert table["af_mid"].null_count == table.num_rows


def test_real_chr_m(shared_data: Path, real: RealBuild, sliced_fasta: Path, tmp_path: Path) -> None:
    pattern = "*v3.1.sites.chrM*.bgz"
    counts, table = real(pattern, "chrM", tmp_path)
    assert counts["alleles_in"] == 18_164
    assert counts["kept"] + counts["rejected"] == 18_164
    rows = zip(table["filter"].to_pylist(), table["af"].to_pylist(), strict=True)
    assert sum(filters == "PASS" and af >= 0.01 for filters, af in rows) == 426
    path = next((shared_data / "gnomad").rglob(pattern))
    assert keys(table) == norm_keys(path, sliced_fasta, "AN>=0", tmp_path)


def test_genuine_chr_m_records(real: RealBuild, tmp_path: Path) -> None:
    counts, table = real("*genuine_header_excerpt.vcf", "chrM", tmp_path)
    assert counts["kept"] == 4
    row = table.to_pylist()[0]
    names = ("pos", "ac", "an", "af", "ac_het", "max_hl")
    assert [row[name] for name in names] == [3, 19, 56_434, 0.000336676, 1, 0.997]
    assert all(row[f"af_{group}"] is not None for group in ANCESTRY_GROUPS)


def test_real_alleles_come_back_from_any_spelling(
    real: RealBuild, sliced_contigs: ContigSet, sliced_reference: Reference, tmp_path: Path
) -> None:
    """Pad every common allele with flank: the keys stay the same."""
    _, table = real("*v4.1*chr17.vcf.bgz", "chr17", tmp_path)
    bases, draw = sliced_reference(GRCH38["chr17"]), random.Random(3)
    records = []
    for _, pos, ref, alt in keys(table):
        left, right = draw.randint(0, 20), draw.randint(0, 20)
        end = pos - 1 + len(ref)
        before, after = bases[pos - 1 - left : pos - 1].decode(), bases[end : end + right].decode()
        records.append(("17", pos - left, ".", f"{before}{ref}{after}", f"{before}{alt}{after}", "PASS", "AF=0.5"))
    path = write_text(tmp_path / "padded.vcf", vcf_text(records, info=["AF:A:Float"]))
    build_gnomad_shard(
        path,
        contig=sliced_contigs["chr17"],
        contigs=sliced_contigs,
        reference=sliced_reference,
        params=GnomadParams(),
        out_dir=tmp_path / "out",
    )
    assert keys(pq.read_table(tmp_path / "out" / VARIANTS_FILE)) == keys(table)
