from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from genolewm_assets.errors import GenoLeWMError, UnknownContigError, VcfError
from genolewm_assets.genome import GRCH38
from genolewm_assets.mito.variants.heteroplasmy import HeteroplasmyCall
from genolewm_assets.sources.mito.heteroplasmy import SampleCalls, read_heteroplasmy
from genolewm_assets_tests.worlds.sources.vcf_files import write_text

CHRM = GRCH38["chrM"]
GT = "GT:1:String"
MUTECT2 = (GT, "AD:R:Integer", "AF:A:Float", "DP:1:Integer")
GNOMAD = (GT, "DP:1:Integer", "FT:.:String", "HL:1:Float", "MQ:1:Float")
MUTSERVE = (GT, "AF:1:String", "DP:1:Integer")


def vcf(*records: str, formats: tuple[str, ...] = MUTECT2, samples: str = "S1 S2", length: int = 16_569) -> str:
    """Return a VCF; a record is POS REF ALT FILTER FORMAT and a column per sample, or CHROM and these."""
    meta = ["##fileformat=VCFv4.2", f"##contig=<ID=chrM,length={length}>", "##contig=<ID=chr1>"]
    meta += ['##FILTER=<ID=weak_evidence,Description="x">', '##FILTER=<ID=npg,Description="x">']
    for declared in formats:
        name, number, kind = declared.split(":")
        meta.append(f'##FORMAT=<ID={name},Number={number},Type={kind},Description="{name}">')
    rows = [["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", *samples.split()]]
    for record in records:
        fields = record.split() if record.startswith("chr") else ["chrM", *record.split()]
        rows.append([*fields[:2], ".", *fields[2:4], ".", fields[4], ".", *fields[5:]])
    return "\n".join([*meta, *("\t".join(row) for row in rows), ""])


def read(folder: Path, text: str | bytes, how: str = "plain") -> SampleCalls:
    return read_heteroplasmy(write_text(folder / "calls.vcf.gz", text, how), CHRM)


def brief(calls: list[HeteroplasmyCall]) -> list[tuple[int, str, str, float, str]]:
    return [(call.pos, call.ref, call.alt, round(call.level, 6), call.filter) for call in calls]


@pytest.mark.parametrize("how", ["plain", "bgzip"])
def test_mutect2_gives_a_level_per_alternate_allele(tmp_path: Path, how: str) -> None:
    text = vcf(
        "73 A G PASS GT:AD:AF:DP 0/1:1,99:0.99:100 0/0:100,0:0.0:100",
        "302 A AC,ACC weak_evidence GT:AD:AF:DP 0/1/2:1,8,1:0.8,0.1:10 0/1/2:.:.,0.25:10",
        "310 T C . GT:AF 0/1:. ./.:.",
    )
    found = read(tmp_path, text, how)
    assert brief(found.calls["S1"]) == [
        (73, "A", "G", 0.99, "PASS"),
        (302, "A", "AC", 0.8, "weak_evidence"),
        (302, "A", "ACC", 0.1, "weak_evidence"),
    ]
    assert brief(found.calls["S2"]) == [(302, "A", "ACC", 0.25, "weak_evidence")]
    assert not found.dropped


def test_gnomad_gives_a_heteroplasmy_level_and_filters_of_the_sample(tmp_path: Path) -> None:
    text = vcf(
        "73 A G PASS GT:DP:FT:HL:MQ 1/1:100:PASS:0.995:60 0/0:100:PASS:0.0:60",
        "152 T C PASS GT:DP:FT:HL:MQ 0/1:100:PASS:0.31:60 0/1:100:weak_evidence,npg:0.2:60",
        "195 T C npg GT:DP:FT:HL:MQ 0/1:100:PASS:0.3:60 ./.:.:.:.:.",
        formats=GNOMAD,
    )
    found = read(tmp_path, text)
    assert brief(found.calls["S1"]) == [
        (73, "A", "G", 0.995, "PASS"),
        (152, "T", "C", 0.31, "PASS"),
        (195, "T", "C", 0.3, "npg"),
    ]
    assert brief(found.calls["S2"]) == [(152, "T", "C", 0.2, "weak_evidence;npg")]


def test_mutserve_gives_levels_of_the_alleles_in_the_genotype(tmp_path: Path) -> None:
    text = vcf(
        "73 A C,G PASS GT:AF:DP 2:0.998:100 0/1:0.04:100",
        "152 T C,G PASS GT:AF:DP 2/1:0.7,0.3:100 0",
        "249 A * PASS GT:AF:DP 1:0.97:100 0",
        formats=MUTSERVE,
    )
    found = read(tmp_path, text)
    assert brief(found.calls["S1"]) == [
        (73, "A", "G", 0.998, "PASS"),
        (152, "T", "G", 0.7, "PASS"),
        (152, "T", "C", 0.3, "PASS"),
        (249, "A", "*", 0.97, "PASS"),
    ]
    assert brief(found.calls["S2"]) == [(73, "A", "C", 0.04, "PASS")]


def test_the_field_is_the_one_that_a_record_has(tmp_path: Path) -> None:
    both = (GT, "AF:A:Float", "HL:1:Float")
    found = read(
        tmp_path, vcf("73 A G PASS GT:AF 0/1:0.5 0", "74 A G PASS GT:AF:HL 0/1:0.5:. 0/1:0.25:.", formats=both)
    )
    assert [call.level for call in found.calls["S1"]] == [0.5, 0.5]
    assert [call.level for call in found.calls["S2"]] == [0.25]
    assert found.fields == {"AF": 3}


ONE = "73 A G PASS GT:AF 0/1:0.5 0"
NO_SAMPLES = vcf(samples="").replace("FORMAT\n", "FORMAT").replace("\tFORMAT", "\n")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (vcf(formats=(GT,)), VcfError, "declares no heteroplasmy level: expected FORMAT field HL or AF, got GT"),
        (vcf(ONE, length=16_571), VcfError, "the length of another assembly: expected 16569 bp, got 16571"),
        (vcf(ONE).replace(",length=16569", "").replace("##contig", "##reference=hg19\n##contig", 1), VcfError, "rCRS"),
        (vcf(ONE).replace("##contig", "##assembly=hg18\n##contig", 1), VcfError, "another assembly in ##assembly"),
        (NO_SAMPLES, VcfError, "has no samples: expected sample columns named as genomes"),
        (vcf("73 A G PASS GT:AF 0/1:x 0", formats=MUTSERVE), VcfError, "AF is not a number: expected 0 to 1, got 'x'"),
        (vcf("73 A G,T PASS GT:AF 0/1:0.5,0.1 0", formats=MUTSERVE), VcfError, "allele of a level in AF is ambiguous"),
        (vcf("73 A G PASS GT:AF 0/1:0.5,0.1 0"), VcfError, "expected as many levels as alternate alleles (1), got 2"),
        (vcf("chr1 73 A G PASS GT:AF 0/1:0.5 0"), VcfError, "no record is on a requested contig"),
        (vcf(f"chrZebra {ONE}"), UnknownContigError, "'chrZebra'"),
        (vcf(ONE.replace("73", "here")), VcfError, "cannot be read as a VCF"),
        (vcf(ONE)[:-3], VcfError, "cannot be read as a VCF"),
        (gzip.compress(vcf(ONE).encode()), VcfError, "is gzip without blocks"),
        (b"", VcfError, "cannot be read as a VCF"),
        (b"\0\1\2 no VCF at all", VcfError, "cannot be read as a VCF"),
        (b">chrM\nGATC\n", VcfError, "cannot be read as a VCF"),
    ],
)
def test_files_that_cannot_be_read_right(
    tmp_path: Path, text: str | bytes, error: type[GenoLeWMError], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(error) as caught:
        read(tmp_path, text)
    assert message in str(caught.value)
    assert "calls.vcf.gz" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(VcfError, match="does not exist"):
        read_heteroplasmy(tmp_path / "none.vcf", CHRM)
