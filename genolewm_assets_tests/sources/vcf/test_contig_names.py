from __future__ import annotations

from pathlib import Path

import pytest

from genolewm_assets.errors import UnknownContigError, VcfError
from genolewm_assets.genome import GRCH38, Contig, ContigSet
from genolewm_assets.sources.vcf.contig_names import ContigNames, check_assembly, is_assembly_contig
from genolewm_assets.sources.vcf.header import parse_header
from genolewm_assets_tests.worlds.sources.scanned_vcf import one_block
from genolewm_assets_tests.worlds.sources.vcf_files import vcf_text, write_text

TOY = Contig("chr1", 19, aliases=("1",))
CONTIGS = ContigSet([TOY, Contig("chr2", 10)])


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("chr5", True),
        ("MT", True),
        ("NC_000003.12", True),
        ("NW_009646201.1", True),
        ("NT_187633.1", True),
        ("KI270706.1", True),
        ("GL000194.1", True),
        ("chr1_KI270706v1_random", True),
        ("chrUn_GL000195v1", True),
        ("chr6_GL000250v2_alt", True),
        ("chrUn_JTFH01000001v1_decoy", True),
        ("HLA-A*01:01:01:01", True),
        ("chrEBV", True),
        ("chr99", False),
        ("scaffold_1", False),
        ("BRCA1", False),
        ("chr17x", False),
    ],
)
def test_assembly_contigs(name: str, known: bool) -> None:
    assert is_assembly_contig(name) is known


def test_contig_names(tmp_path: Path) -> None:
    text = vcf_text([(name, 3, ".", "G", "C", "PASS", ".") for name in ("1", "chr1", "chr7", "chr99")])
    names = ContigNames(CONTIGS)
    block = one_block(write_text(tmp_path / "a.vcf", text))
    *known, (unknown, last) = block.runs()
    assert [names.resolve(name, block.take(rows).where) for name, rows in known] == [TOY, TOY, None]
    names.check_met(CONTIGS, where="a.vcf")
    message = r"^a\.vcf: no record is on a requested contig: expected 'chr2', got '1', 'chr1', 'chr7'\."
    with pytest.raises(VcfError, match=message):
        names.check_met([CONTIGS["chr2"]], where="a.vcf")
    with pytest.raises(UnknownContigError, match=r"a\.vcf, line 6: .*'chr99'"):
        names.resolve(unknown, block.take(last).where)


def test_another_assembly_is_told_by_its_lengths() -> None:
    check_assembly(
        parse_header(["##contig=<ID=17,length=83257441>", "##contig=<ID=17x,length=1>"], ()), GRCH38, where=""
    )
    header = parse_header(["##contig=<ID=17,length=81195210>"], ())
    with pytest.raises(VcfError, match=r"a\.vcf: .*'17'.*expected 83257441 bp, got 81195210 bp"):
        check_assembly(header, GRCH38, where="a.vcf")


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "name", ["chr" + "_v1" * 300_000 + "!", "chr" + "v" * 1_000_000, "HLA-" + "x" * 1_000_000, "x" * 1_000_000]
)
def test_an_endless_name_is_no_contig(name: str) -> None:
    assert not is_assembly_contig(name)
    with pytest.raises(UnknownContigError) as raised:
        ContigNames(CONTIGS).resolve(name, lambda _: "a.vcf, line 3")
    assert str(raised.value).startswith("a.vcf, line 3: not a contig of this genome")
    assert len(str(raised.value)) < 300
