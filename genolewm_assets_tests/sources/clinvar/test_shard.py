from __future__ import annotations

import gzip
import random
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pysam.bcftools
import pytest

from genolewm_assets.errors import InputError, UnknownContigError, UnknownTermError, VcfError
from genolewm_assets.genome import CLASSES, Contig, ContigSet
from genolewm_assets.sources.clinvar.shard import build_clinvar_shard, contig_file, read_release_date
from genolewm_assets_tests.referees.bcftools import bcftools_norm
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.sources.clinvar_records import INFO, SEQUENCE, TOY, Row, build, record
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

Reference = Callable[[Contig], bytes]


def test_columns(tmp_path: Path) -> None:
    more = (
        ";CLNSIGCONF=Pathogenic(1)|Benign(2);CLNSIGINCL=624568:Benign;CLNREVSTAT=criteria_provided,_single_submitter"
        ";ONC=Oncogenic;SCI=Tier_I_-_Strong;GENEINFO=BRCA1:672|MT-TF;CLNVC=Deletion;MC=SO:1|x,SO:2|y;CLNDN=a|b"
        ";CLNHGVS=NC_000017.11:g.1del;RS=11|12"
    )
    (row,), _, _ = build(tmp_path, [record("Likely_pathogenic", pos=8, ref="TT", alt="T", more=more)])
    expected: Row = {"chrom": "chr17", "pos": 4, "ref": "AT", "alt": "A", "clinvar_id": 7, "allele_id": 70, "stars": 1}
    expected |= {"label": "LP", "clnsig": "Likely_pathogenic", "clnsig_conf": "Pathogenic(1)|Benign(2)"}
    expected |= {"clnsig_incl": "624568:Benign", "clnrevstat": "criteria_provided,_single_submitter"}
    expected |= {"somatic_impact": "Tier_I_-_Strong", "gene_symbols": ["BRCA1", "MT-TF"], "gene_ids": [672, None]}
    expected |= {"oncogenicity": "Oncogenic", "variant_type": "Deletion", "consequence": "SO:1|x,SO:2|y"}
    assert row == expected | {"conditions": "a|b", "hgvs": "NC_000017.11:g.1del", "rsid": "rs11;rs12"}


def test_records_that_bcftools_joined_are_refused_with_the_cause(tmp_path: Path) -> None:
    """An SNV and a deletion of one place, as ``bcftools norm -m +any`` makes one record of them."""
    head = "".join(f"##contig=<ID={contig.name}>\n" for contig in TOY)
    for names in ((7, 8), (".", ".")):
        text = vcf_text(
            [record(chrom="chr17", name=names[0]), record("Benign", chrom="chr17", name=names[1], ref="GA", alt="G")],
            info=INFO,
        )
        source = write_text(tmp_path / "in.vcf", text.replace("#CHROM", f"{head}#CHROM"))
        joined = tmp_path / "joined.vcf"
        joined.write_text(pysam.bcftools.norm("-m", "+any", str(source)))
        assert joined.read_text().splitlines()[-1].split("\t")[3:5] == ["GA", "TA,G"]
        with pytest.raises(VcfError, match=r"has 2 ALTs: several records seem to have been joined.*-m -any") as said:
            build_clinvar_shard(
                joined, release="2026-02-26", contigs=TOY, reference=lambda _: SEQUENCE, out_dir=tmp_path / "out"
            )
        assert "joined.vcf, line" in str(said.value)
    with pytest.raises(UnknownTermError, match=r"has 2 ALTs: several records seem to have been joined"):
        build(tmp_path, [record("Nonsense", alt="T,A")])
    with pytest.raises(VcfError, match="Use ClinVar's VCF"):
        build(tmp_path, [record(name=".")])


def test_oncogenicity_and_inclusion_never_label(tmp_path: Path) -> None:
    more = ";CLNSIGINCL=1:Pathogenic;ONC=Oncogenic;SCI=Tier_I_-_Strong"
    rows, counts, _ = build(
        tmp_path, [("17", 3, 7, "G", "T", ".", f"ALLELEID=70{more}"), record("not_provided", alt="A")]
    )
    assert [row["label"] for row in rows] == ["OTHER", "OTHER"]
    assert counts["label.OTHER"] == 2


def test_one_file_per_contig_or_one_for_all(tmp_path: Path) -> None:
    records = [record(pos=6, ref="T", alt="A"), record(chrom="chr17", alt="C"), record(chrom="MT", alt="A")]
    expected = [("chr17", 3, "C"), ("chr17", 6, "A"), ("chrM", 3, "A")]
    for single_file in (False, True):
        folder = tmp_path / str(single_file)
        folder.mkdir()
        rows, _, _ = build(folder, records, single_file=single_file)
        assert [(row["chrom"], row["pos"], row["alt"]) for row in rows] == expected
    assert (
        pq.read_metadata(tmp_path / "True" / "out" / "variants.parquet").metadata[b"genolewm.release"] == b"2026-02-26"
    )


def test_counts_before_and_after_rejects(tmp_path: Path) -> None:
    records = [
        record("Pathogenic"),
        record("Pathogenic", alt="."),
        record("Benign", alt="N"),
        record("Benign", ref="A"),
        record("Uncertain_significance", alt="A,C"),
        record("Benign", chrom="chr5"),
        record("Benign", chrom="NW_009646201.1"),
    ]
    _, counts, rejects = build(tmp_path, records)
    reasons = ("missing_alt", "iupac", "ref_mismatch")
    expected = {"records": 7, "alleles_in": 8, "kept": 3, "rejected": 3, "filtered": 2, "filtered.other_contig": 2}
    expected |= {"other_contig.NW_009646201.1": 1, **{f"rejected.{reason}": 1 for reason in reasons}}
    for when, numbers in (("label", (1, 0, 2, 0, 0, 0)), ("label_before_rejects", (2, 0, 2, 0, 2, 0))):
        expected |= {f"{when}.{label}": n for label, n in zip(CLASSES, numbers, strict=True)}
    assert counts == expected
    assert [(row["record_id"], row["reason"]) for row in rejects] == [("7", reason) for reason in reasons]


def test_of_two_spellings_the_better_reviewed_stays(tmp_path: Path) -> None:
    expert = ";CLNREVSTAT=reviewed_by_expert_panel"
    records = [
        record("Benign", pos=9, ref="T", alt="TT", name=1),
        record("Pathogenic", pos=5, ref="T", alt="TT", name=9, more=expert),
        record("Likely_benign", pos=4, ref="A", alt="AT", name=3, more=expert),
    ]
    for _ in range(4):
        (row,), counts, rejects = build(tmp_path, records)
        assert (row["clinvar_id"], row["label"], row["stars"]) == (3, "OTHER", 3)
        assert (counts["rejected.duplicate"], counts["rejected.conflicting_records"]) == (1, 1)
        found = {str(row["record_id"]): (row["reason"], str(row["detail"]).partition(" (")[2]) for row in rejects}
        assert found == {
            "1": ("duplicate", "3 LB 3*), this is 1 B 0*"),
            "9": ("conflicting_records", "3 LB 3*), this is 9 P 3*"),
        }
        random.Random(1).shuffle(records)


@each_row(
    ("one", "other", "label", "reason"),
    [
        ("Pathogenic", "Likely_pathogenic", "LP", "duplicate"),
        ("Benign", "Likely_benign", "LB", "duplicate"),
        ("Benign", "Benign", "B", "duplicate"),
        ("Pathogenic", "Benign", "OTHER", "conflicting_records"),
        ("Likely_pathogenic", "Likely_benign", "OTHER", "conflicting_records"),
        ("Uncertain_significance", "Pathogenic", "OTHER", "conflicting_records"),
        ("Conflicting_classifications_of_pathogenicity", "Benign", "OTHER", "conflicting_records"),
        ("Pathogenic", "not_provided", "P", "duplicate"),
        ("Benign", "drug_response", "B", "duplicate"),
        ("Likely_benign", "no_known_pathogenicity", "LB", "duplicate"),
        ("not_provided", "risk_factor", "OTHER", "duplicate"),
    ],
)
def test_records_of_equal_stars_are_weighed(one: str, other: str, label: str, reason: str, tmp_path: Path) -> None:
    for first, second in ((one, other), (other, one)):
        for names in ((3, 9), (9, 3)):
            (row,), counts, rejects = build(tmp_path, [record(first, name=names[0]), record(second, name=names[1])])
            found = row["label"], counts[f"label.{label}"], [each["reason"] for each in rejects]
            assert found == (label, 1, [reason])
            assert {row["clinvar_id"], int(rejects[0]["record_id"])} == {3, 9}


@pytest.mark.parametrize(
    ("bad", "kind", "message"),
    [
        (record("Pathogenicish"), UnknownTermError, r"in\.vcf, line 7: CLNSIG term 'Pathogenicish' is not in the"),
        (record(more=";CLNREVSTAT=new"), UnknownTermError, r"in\.vcf, line 7: CLNREVSTAT term 'new'"),
        (record(more=";GENEINFO=BRCA1:x"), VcfError, r"in\.vcf, line 7: INFO/GENEINFO cannot be read"),
        (record(name="."), VcfError, r"in\.vcf, line 7: ID is not a ClinVar identifier: expected digits, got '\.'"),
        (record(name="rs5"), VcfError, r"line 7: ID cannot be read: expected a count, got 'rs5'"),
        (("17", 3, 7, "G", "T", ".", "ALLELEID=x"), VcfError, r"line 7: INFO/ALLELEID cannot be read: .* got 'x'"),
        (record(chrom="chr99"), UnknownContigError, r"in\.vcf, line 7: .*'chr99'"),
        (record(chrom="NC_000017.11"), UnknownContigError, r"line 7: contig 'NC_000017\.11' is GRCh38's chr17, which"),
    ],
)
def test_bad_record_is_named(tmp_path: Path, bad: tuple[object, ...], kind: type[InputError], message: str) -> None:
    with pytest.raises(kind, match=message):
        build(tmp_path, [bad])


def test_another_kind_of_vcf_is_refused(tmp_path: Path) -> None:
    path = write_text(tmp_path / "in.vcf", vcf_text([record()], info=["AF:A:Float"]))
    with pytest.raises(VcfError, match="does not declare ClinVar's classification: expected INFO field CLNSIG, got AF"):
        build_clinvar_shard(path, release="x", contigs=TOY, reference=None, out_dir=tmp_path)
    with pytest.raises(VcfError, match="states no release date: expected ##fileDate"):
        read_release_date(path)


def test_a_file_without_a_record_of_the_genome_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VcfError, match=r"in\.vcf: the file holds no record"):
        build(tmp_path, [])
    with pytest.raises(VcfError, match=r"no record is on a requested contig: expected 'chr17', 'chrM', got 'X'"):
        build(tmp_path, [record(chrom="X")])
    dated = vcf_text([], info=INFO, meta=["##fileDate=2026-02-26"])
    with pytest.raises(VcfError, match=r"^https://there/a\.vcf: the file holds no record"):
        read_release_date(write_text(tmp_path / "a.vcf", dated), label="https://there/a.vcf")


def plain_records(path: Path) -> list[list[str]]:
    """Read (pos, id, ref, alt) with nothing but string splitting."""
    with gzip.open(path, "rt") as lines:
        return [line.split("\t", 5)[1:5] for line in lines if not line.startswith("#")]


@pytest.mark.parametrize(
    ("release", "day", "rejects"),
    [
        ("20201107", date(2020, 11, 7), {"missing_alt": 3}),
        ("20260226", date(2026, 2, 26), {"missing_alt": 3, "iupac": 14}),
        ("20220525.chrM", date(2022, 5, 25), {"no_change": 1}),
    ],
)
def test_real_files_equal_bcftools_norm(
    *,
    release: str,
    day: date,
    rejects: dict[str, int],
    shared_data: Path,
    sliced_contigs: ContigSet,
    sliced_fasta: Path,
    sliced_reference: Reference,
    tmp_path: Path,
) -> None:
    vcf = shared_data / "clinvar" / "vcf_GRCh38" / f"clinvar_{release}.vcf.gz"
    assert read_release_date(vcf) == day
    counts = build_clinvar_shard(
        vcf, release=release, contigs=sliced_contigs, reference=sliced_reference, out_dir=tmp_path / "out"
    ).counts
    found = {name: n for name, n in counts.items() if name.startswith(("filtered", "rejected."))}
    assert found == {"filtered": 0, **{f"rejected.{reason}": n for reason, n in rejects.items()}}
    chrom = "chrM" if release.endswith("chrM") else "chr17"
    records = plain_records(vcf)
    assert counts["alleles_in"] == len(records)
    published = [((chrom, int(pos), ref, alt), int(name)) for pos, name, ref, alt in records if ref != alt]
    theirs = zip(bcftools_norm(sliced_fasta, [allele for allele, _ in published], tmp_path), published, strict=True)
    expected = sorted((*allele[1:], name) for allele, (_, name) in theirs if allele and set(allele[3]) <= set("ACGT"))
    table = pq.read_table(tmp_path / "out" / contig_file(Contig(chrom, 1)))
    ours = list(zip(*(table[name].to_pylist() for name in ("pos", "ref", "alt", "clinvar_id")), strict=True))
    assert ours == expected
    assert len(ours) == counts["kept"]
