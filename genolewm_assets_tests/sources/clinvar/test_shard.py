from __future__ import annotations

import gzip
import hashlib
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pysam.bcftools
import pytest

from genolewm_assets.errors import InputError, UnknownContigError, UnknownTermError, VcfError
from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.sources.clinvar.shard import build_clinvar_shard, contig_file, read_release_date
from genolewm_assets_tests.rows import each_row
from genolewm_assets_tests.worlds.sources.clinvar_records import INFO, SEQUENCE, TOY, build, record
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

Reference = Callable[[Contig], bytes]

RELEASES = ("20201107", "20260226")


def test_columns(tmp_path: Path) -> None:
    more = (
        ";CLNSIGCONF=Pathogenic(1)|Benign(2);CLNSIGINCL=624568:Benign;CLNREVSTAT=criteria_provided,_single_submitter"
        ";ONC=Oncogenic;SCI=Tier_I_-_Strong;GENEINFO=BRCA1:672|MT-TF;CLNVC=Deletion;MC=SO:1|x,SO:2|y;CLNDN=a|b"
        ";CLNHGVS=NC_000017.11:g.1del;RS=11|12"
    )
    (row,), _, _ = build(tmp_path, [record("Likely_pathogenic", pos=8, ref="TT", alt="T", more=more)])
    assert row == {
        "chrom": "chr17",
        "pos": 4,
        "ref": "AT",
        "alt": "A",
        "clinvar_id": 7,
        "allele_id": 70,
        "label": "LP",
        "clnsig": "Likely_pathogenic",
        "clnsig_conf": "Pathogenic(1)|Benign(2)",
        "clnsig_incl": "624568:Benign",
        "stars": 1,
        "clnrevstat": "criteria_provided,_single_submitter",
        "oncogenicity": "Oncogenic",
        "somatic_impact": "Tier_I_-_Strong",
        "gene_symbols": ["BRCA1", "MT-TF"],
        "gene_ids": [672, None],
        "variant_type": "Deletion",
        "consequence": "SO:1|x,SO:2|y",
        "conditions": "a|b",
        "hgvs": "NC_000017.11:g.1del",
        "rsid": "rs11;rs12",
    }


def test_a_file_of_many_scaffolds_names_them(tmp_path: Path) -> None:
    records = [record(), *(record(chrom=name) for name in ("NT_187633.1", "13", "NW_009646201.1", "NT_187633.1"))]
    _, counts, _ = build(tmp_path, records)
    assert {name: n for name, n in counts.items() if "other_contig" in name} == {
        "filtered.other_contig": 4,
        "other_contig.NT_187633.1": 2,
        "other_contig.NW_009646201.1": 1,
    }
    assert {name for name in build(tmp_path, [record(), record(chrom="13")])[1] if name.startswith("other")} == set()


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
    assert counts == {
        "records": 7,
        "alleles_in": 8,
        "kept": 3,
        "rejected": 3,
        "filtered": 2,
        "rejected.missing_alt": 1,
        "rejected.iupac": 1,
        "rejected.ref_mismatch": 1,
        "filtered.other_contig": 2,
        "other_contig.NW_009646201.1": 1,
        **{f"label.{label}": n for label, n in {"P": 1, "LP": 0, "LB": 0, "B": 0, "VUS": 2, "OTHER": 0}.items()},
        **{
            f"label_before_rejects.{label}": n
            for label, n in {"P": 2, "LP": 0, "LB": 0, "B": 2, "VUS": 2, "OTHER": 0}.items()
        },
    }
    assert [(row["record_id"], row["reason"]) for row in rejects] == [
        ("7", "missing_alt"),
        ("7", "iupac"),
        ("7", "ref_mismatch"),
    ]


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
            assert (row["label"], counts[f"label.{label}"], [each["reason"] for each in rejects]) == (
                label,
                1,
                [reason],
            )
            assert {row["clinvar_id"], int(rejects[0]["record_id"])} == {3, 9}


def test_without_a_reference_alleles_are_trimmed_only(tmp_path: Path) -> None:
    rows, _, _ = build(tmp_path, [record(pos=8, ref="TT", alt="T"), record(ref="A", alt="C")], reference=False)
    assert [(row["pos"], row["ref"], row["alt"]) for row in rows] == [(3, "A", "C"), (8, "TT", "T")]


@pytest.mark.parametrize(
    ("bad", "kind", "message"),
    [
        (
            record("Pathogenicish"),
            UnknownTermError,
            r"in\.vcf, line 7: CLNSIG term 'Pathogenicish' is not in the vocabulary",
        ),
        (record(more=";CLNREVSTAT=new"), UnknownTermError, r"in\.vcf, line 7: CLNREVSTAT term 'new'"),
        (record(more=";GENEINFO=BRCA1:x"), VcfError, r"in\.vcf, line 7: INFO/GENEINFO cannot be read"),
        (record(name="."), VcfError, r"in\.vcf, line 7: ID is not a ClinVar identifier: expected digits, got '\.'"),
        (record(name="rs5"), VcfError, r"line 7: ID cannot be read: expected a count, got 'rs5'"),
        (("17", 3, 7, "G", "T", ".", "ALLELEID=x"), VcfError, r"line 7: INFO/ALLELEID cannot be read: .* got 'x'"),
        (record(chrom="chr99"), UnknownContigError, r"in\.vcf, line 7: .*'chr99'"),
        (
            record(chrom="NC_000017.11"),
            UnknownContigError,
            r"in\.vcf, line 7: contig 'NC_000017\.11' is GRCh38's chr17, which this genome has with another sequence",
        ),
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


def test_same_bytes_whatever_the_order_of_records(tmp_path: Path) -> None:
    draw = random.Random(2)
    terms = ["Pathogenic", "Benign", "Likely_benign"]
    records = [
        record(
            draw.choice(terms),
            chrom=draw.choice(["17", "MT"]),
            pos=draw.randint(1, 30),
            name=at,
            alt=draw.choice("ACGT"),
        )
        for at in range(300)
    ]
    digests = set()
    for _ in range(3):
        build(tmp_path, records)
        digests.add(hashlib.sha256((tmp_path / "out" / "chr17.parquet").read_bytes()).hexdigest())
        draw.shuffle(records)
    assert len(digests) == 1


def real(shared_data: Path, release: str) -> Path:
    return shared_data / "clinvar" / "vcf_GRCh38" / f"clinvar_{release}.vcf.gz"


@pytest.fixture(scope="module")
def shards(
    shared_data: Path, sliced_contigs: ContigSet, sliced_reference: Reference, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Path, Mapping[str, int]]]:
    """Both real releases, built."""
    built = {}
    for release in (*RELEASES, "20220525.chrM"):
        out = tmp_path_factory.mktemp(release)
        report = build_clinvar_shard(
            real(shared_data, release), release=release, contigs=sliced_contigs, reference=sliced_reference, out_dir=out
        )
        built[release] = (out, report.counts)
    return built


def plain_records(path: Path) -> list[tuple[str, str, str, str, str]]:
    """Read (pos, id, ref, alt, info) with nothing but string splitting."""
    with gzip.open(path, "rt") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines if not line.startswith("#")]
    return [(row[1], row[2], row[3], row[4], row[7]) for row in rows]


def test_real_classes_before_rejects(shards: dict[str, tuple[Path, Mapping[str, int]]], shared_data: Path) -> None:
    counts = shards["20260226"][1]
    before = {label: counts[f"label_before_rejects.{label}"] for label in ("P", "LP", "LB", "B", "VUS", "OTHER")}
    assert before == {"P": 3566, "LP": 484, "LB": 2888, "B": 702, "VUS": 2362, "OTHER": 4996}
    texts = Counter(
        found.group(1) if (found := re.search(r"CLNSIG=([^;]*)", info)) else ""
        for *_, info in plain_records(real(shared_data, "20260226"))
    )
    assert before["LP"] == texts["Likely_pathogenic"] + texts["Pathogenic/Likely_pathogenic"]
    assert before["LB"] == texts["Likely_benign"] + texts["Benign/Likely_benign"]
    assert (before["P"], before["B"], before["VUS"]) == tuple(
        texts[name] for name in ("Pathogenic", "Benign", "Uncertain_significance")
    )


def test_real_rejects(shards: dict[str, tuple[Path, Mapping[str, int]]]) -> None:
    out, counts = shards["20260226"]
    assert (counts["alleles_in"], counts["kept"]) == (14_998, 14_981)
    assert {name: n for name, n in counts.items() if name.startswith("rejected.")} == {
        "rejected.missing_alt": 3,
        "rejected.iupac": 14,
    }
    assert pq.read_metadata(out / "rejects.parquet").num_rows == 17
    assert (shards["20201107"][1]["alleles_in"], shards["20201107"][1]["kept"]) == (11_033, 11_030)
    assert [pq.read_metadata(out / f"{name}.parquet").num_rows for name in ("chr17", "chr20", "chr21", "chrM")] == [
        14_981,
        0,
        0,
        0,
    ]


def test_real_chr_m(shards: dict[str, tuple[Path, Mapping[str, int]]], shared_data: Path) -> None:
    out, counts = shards["20220525.chrM"]
    assert counts["alleles_in"] == 2750
    same = [row for row in plain_records(real(shared_data, "20220525.chrM")) if row[2] == row[3]]
    assert counts["rejected"] == counts["rejected.no_change"] == len(same) == 1
    assert pq.read_metadata(out / "chrM.parquet").num_rows == 2749


@pytest.mark.parametrize("release", [*RELEASES, "20220525.chrM"])
def test_real_keys_equal_bcftools_norm(
    release: str,
    shards: dict[str, tuple[Path, Mapping[str, int]]],
    shared_data: Path,
    sliced_fasta: Path,
    tmp_path: Path,
) -> None:
    lines = ["##fileformat=VCFv4.2", "##contig=<ID=chr17>", "##contig=<ID=chrM>"]
    lines.append("#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO")
    chrom = "chrM" if release.endswith("chrM") else "chr17"
    records = plain_records(real(shared_data, release))
    lines += [f"{chrom}\t{pos}\t{name}\t{ref}\t{alt}\t.\t.\t." for pos, name, ref, alt, _ in records if ref != alt]
    path = write_text(tmp_path / "in.vcf", "\n".join(lines) + "\n")
    text = str(pysam.bcftools.norm("-f", str(sliced_fasta), str(path)))
    theirs = [line.split("\t")[:5] for line in text.splitlines() if not line.startswith("#")]
    expected = sorted((int(p), ref, alt, int(name)) for _, p, name, ref, alt in theirs if set(alt) <= set("ACGT"))
    table = pq.read_table(shards[release][0] / contig_file(Contig(chrom, 1)))
    ours = list(zip(*(table[name].to_pylist() for name in ("pos", "ref", "alt", "clinvar_id")), strict=True))
    assert ours == expected
    assert len(ours) == shards[release][1]["kept"]


@each_row(
    ("release", "day"),
    [("20201107", date(2020, 11, 7)), ("20260226", date(2026, 2, 26)), ("20220525.chrM", date(2022, 5, 25))],
)
def test_real_release_dates(shared_data: Path, release: str, day: date) -> None:
    assert read_release_date(real(shared_data, release)) == day
