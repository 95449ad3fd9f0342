from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from genolewm_assets.errors import ConfigurationError, UnknownContigError
from genolewm_assets.genome import GRCH38, Contig, ContigSet, genome_digest, known_aliases
from genolewm_assets_tests.rows import each_row


@each_row("name", ["chr21", "21", "NC_000021.9", "CM000683.2", "CHR21", "Chr21", "nc_000021.9"])
def test_chr21_in_every_spelling(name: str) -> None:
    assert GRCH38.resolve(name).name == "chr21"


@each_row("name", ["chrM", "M", "MT", "chrMT", "NC_012920.1", "mt", "chrm"])
def test_mitochondrion_in_every_spelling(name: str) -> None:
    contig = GRCH38.resolve(name)
    assert (contig.name, contig.length, contig.circular) == ("chrM", 16_569, True)


@each_row("name", ["", "chr0", "chr23", "GL000194.1", "chr21 ", "NC_000021.8"])
def test_unknown_contig_is_an_error(name: str) -> None:
    with pytest.raises(UnknownContigError, match="not a contig of this genome"):
        GRCH38.resolve(name)


def test_unknown_contig_names_the_nearest() -> None:
    with pytest.raises(UnknownContigError, match=r"contig 'NC_000021\.8': .*'NC_000021\.9'.*got 'NC_000021\.8'"):
        GRCH38.resolve("NC_000021.8")


def test_item_access_takes_canonical_names_only() -> None:
    assert GRCH38["chr21"] is GRCH38.resolve("21")
    assert "chr21" in GRCH38
    assert "21" not in GRCH38
    with pytest.raises(UnknownContigError):
        GRCH38["21"]


def test_order_and_topology() -> None:
    expected = (*(f"chr{n}" for n in range(1, 23)), "chrX", "chrY", "chrM")
    assert GRCH38.names == expected
    assert tuple(c.name for c in GRCH38.linear) == expected[:-1]
    assert [c.name for c in GRCH38] == list(expected)
    # NCBI's total of the assembled chromosomes, 3,088,269,832, and rCRS.
    assert sum(c.length for c in GRCH38) == 3_088_269_832 + 16_569
    assert len({c.md5 for c in GRCH38}) == len(GRCH38) == 25


def test_lengths_are_those_of_a_genuine_gnomad_header(shared_data: Path) -> None:
    vcf = shared_data / "gnomad/release/3.0/vcf/genomes/gnomad.genomes.r3.0.sites.chr17.vcf.bgz"
    with gzip.open(vcf, "rt") as lines:
        found = dict(re.findall(r"##contig=<ID=(chr[^_,]+),length=(\d+)", lines.read()))
    assert {c.name: str(c.length) for c in GRCH38} == {name: found[name] for name in GRCH38.names}


def test_chrm_digest_is_that_of_rcrs(contig_bytes: Callable[[str], bytes]) -> None:
    sequence = contig_bytes("chrM")
    assert hashlib.md5(sequence).hexdigest() == GRCH38["chrM"].md5
    assert len(sequence) == GRCH38["chrM"].length


@each_row(
    "contigs",
    [
        [Contig("chr1", 5), Contig("chr1", 5)],
        [Contig("chr1", 5, aliases=("1",)), Contig("chr2", 5, aliases=("1",))],
        [Contig("chr1", 5, aliases=("chr2",)), Contig("chr2", 5)],
    ],
)
def test_shared_name_is_an_error_at_construction(contigs: list[Contig]) -> None:
    with pytest.raises(ConfigurationError, match="already belongs to 'chr1'"):
        ContigSet(contigs)


def test_case_is_ignored_only_where_unambiguous() -> None:
    contigs = ContigSet([Contig("a", 1), Contig("A", 2), Contig("b", 3, aliases=("B", "bb"))])
    assert contigs.resolve("a").length == 1
    assert contigs.resolve("A").length == 2
    assert contigs.resolve("BB").length == 3
    with pytest.raises(UnknownContigError):
        ContigSet([Contig("aa", 1), Contig("AA", 2)]).resolve("Aa")


@each_row(
    "name",
    ["chr_13", "chromosome13", "Chromosome_13", "13.fa", "chr13.fasta", "chr013", "chrom13", "NC_000013.1", "chr13x"],
)
def test_a_name_that_resembles_a_contig_is_refused_with_the_contig(name: str) -> None:
    contigs = ContigSet([GRCH38["chr1"], GRCH38["chr13"], GRCH38["chr3"]])
    with pytest.raises(UnknownContigError) as raised:
        contigs.resolve(name)
    assert "expected 'chr13'" in str(raised.value)
    assert "It resembles 'chr13': if that is meant, add it under the contig's aliases" in str(raised.value)


@each_row("name", ["chrUn_KI270302v1", "NT_187633.1", "HLA-A*01:01:01:01", "scaffold_1", "BRCA1", "chrEBV"])
def test_a_name_of_its_own_resembles_no_contig(name: str) -> None:
    with pytest.raises(UnknownContigError, match="Add the contig or an alias to the catalogue, or correct the name"):
        GRCH38.resolve(name)


def test_contig_sets_compare_by_content() -> None:
    assert ContigSet([Contig("a", 1)]) == ContigSet([Contig("a", 1)])
    assert hash(ContigSet([Contig("a", 1)])) == hash(ContigSet([Contig("a", 1)]))
    assert ContigSet([Contig("a", 1), Contig("b", 1)]) != ContigSet([Contig("b", 1), Contig("a", 1)])


@each_row(
    ("name", "aliases"),
    [
        ("chr1", ("1",)),
        ("1", ("chr1",)),
        ("chrX", ("X",)),
        ("chrM", ("M", "MT", "chrMT")),
        ("MT", ("chrM", "M", "chrMT")),
    ],
)
def test_aliases_are_the_usual_ones_and_of_a_contig_of_grch38_its_accessions(
    name: str, aliases: tuple[str, ...]
) -> None:
    assert known_aliases(name, 1_000) == aliases
    for contig in GRCH38:
        assert known_aliases(contig.name, contig.length) == contig.aliases
        bare = contig.name.removeprefix("chr")
        assert {bare, *known_aliases(bare, contig.length)} == {contig.name, *contig.aliases}


@each_row(
    "build",
    [
        lambda: Contig("", 1),
        lambda: Contig("chr 1", 1),
        lambda: Contig("chr1", 1, aliases=("a\t",)),
        lambda: Contig("chr1", 0),
        lambda: Contig("chr1", 1, md5="ABC"),
        lambda: Contig("chr1", 1, md5="A" * 32),
    ],
)
def test_impossible_contig_is_an_error(build: Callable[[], Contig]) -> None:
    with pytest.raises(ConfigurationError):
        build()


def test_genome_digest_is_order_free_and_sees_every_field() -> None:
    one, two = Contig("chr1", 10, md5="0" * 32), Contig("chr10", 5, md5="1" * 32)
    text = f"chr1\t10\t{'0' * 32}\nchr10\t5\t{'1' * 32}\n"
    assert genome_digest([one, two]) == genome_digest([two, one]) == hashlib.sha256(text.encode()).hexdigest()
    others = [Contig("chr2", 10, md5="0" * 32), Contig("chr1", 11, md5="0" * 32), Contig("chr1", 10, md5="2" * 32)]
    assert len({genome_digest([c, two]) for c in (one, *others)}) == 4


def test_genome_digest_needs_every_md5() -> None:
    with pytest.raises(ConfigurationError, match="contig 'chr1': has no MD5"):
        genome_digest([Contig("chr1", 10)])
