from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from genolewm_assets.errors import UnknownContigError, VcfError
from genolewm_assets.genome import Contig, ContigSet
from genolewm_assets.sources.vcf.contig_names import ContigNames, is_assembly_contig
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
    assert [names.resolve(name, block.where) for name in ("1", "chr1", "chr7")] == [TOY, TOY, None]
    names.check_met(CONTIGS, where="a.vcf")
    message = r"^a\.vcf: no record is on a requested contig: expected 'chr2', got '1', 'chr1', 'chr7'\."
    with pytest.raises(VcfError, match=message):
        names.check_met([CONTIGS["chr2"]], where="a.vcf")
    with pytest.raises(UnknownContigError, match=r"a\.vcf, line 6: .*'chr99'"):
        names.resolve("chr99", block.take(slice(3, 4)).where)


@given(st.lists(st.sampled_from(["1", "chr1", "chr2", "chr7", "HLA-A*01:01", "KI270706.1"]), min_size=1, max_size=30))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_block_is_divided_by_contig_and_not_by_spelling(tmp_path: Path, spellings: list[str]) -> None:
    text = vcf_text([(name, at, ".", "G", "C", "PASS", f"X={at}") for at, name in enumerate(spellings, 1)])
    block = one_block(write_text(tmp_path / "a.vcf", text))
    expected: dict[Contig | None, list[tuple[int, str, str]]] = {}
    for at, name in enumerate(spellings, 1):
        contig = {"1": TOY, "chr1": TOY, "chr2": CONTIGS["chr2"]}.get(name)
        expected.setdefault(contig, []).append((at, name, str(at)))
    found = {
        contig: list(zip(part.pos.tolist(), part.chroms().to_pylist(), part.strings_of("X").to_pylist(), strict=True))
        for contig, part in ContigNames(CONTIGS).divide(block)
    }
    assert list(found.items()) == list(expected.items())


def test_an_unknown_name_is_told_with_its_first_line(tmp_path: Path) -> None:
    names = ["1", "chr1", "chr7", "1", "chr99", "chr1", "chr99"]
    text = vcf_text([(name, 3, ".", "G", "C", "PASS", ".") for name in names])
    with pytest.raises(UnknownContigError, match=r"a\.vcf, line 7: .*'chr99'"):
        next(ContigNames(CONTIGS).divide(one_block(write_text(tmp_path / "a.vcf", text))))


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
