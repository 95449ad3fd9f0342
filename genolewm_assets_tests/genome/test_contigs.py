from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.errors import ConfigurationError, UnknownContigError
from genolewm_assets.genome import GRCH38, Contig, ContigSet, genome_digest, known_aliases
from genolewm_assets.genome.assemblies import (
    ASSEMBLIES,
    assemblies_of_genome,
    assemblies_of_length,
    find_assemblies,
    name_chromosome,
)
from genolewm_assets.genome.linkage import connect
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


@each_row(
    ("name", "aliases"),
    [
        *(("chr1", ("1",)), ("1", ("chr1",)), ("chrX", ("X",)), ("chrM", ("M", "MT", "chrMT"))),
        ("MT", ("chrM", "M", "chrMT")),
    ],
)
def test_aliases_are_the_usual_ones_and_the_accessions_of_grch38(name: str, aliases: tuple[str, ...]) -> None:
    assert known_aliases(name, 1_000) == aliases
    for contig in GRCH38:
        assert known_aliases(contig.name, contig.length) == contig.aliases
        bare = contig.name.removeprefix("chr")
        assert {bare, *known_aliases(bare, contig.length)} == {contig.name, *contig.aliases}


@each_row(
    "build",
    [
        *(lambda: Contig("", 1), lambda: Contig("chr 1", 1), lambda: Contig("chr1", 1, aliases=("a\t",))),
        *(lambda: Contig("chr1", 0), lambda: Contig("chr1", 1, md5="ABC"), lambda: Contig("chr1", 1, md5="A" * 32)),
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


LINKS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=20)


@given(LINKS)
def test_equal_to_flooding_from_every_item(links: list[tuple[int, int]]) -> None:
    group = connect(links)
    assert set(group) == {item for link in links for item in link}
    for item in group:
        reached = {item}
        while more := {b for link in links for a, b in (link, link[::-1]) if a in reached} - reached:
            reached |= more
        assert {other for other in group if group[other] == group[item]} == reached


def test_every_chromosome_has_a_length_of_its_own_in_each_assembly() -> None:
    nuclear = GRCH38.names[:-1]
    assert all(set(nuclear) <= set(lengths) for lengths in ASSEMBLIES.values())
    for name in nuclear:
        assert len({lengths[name] for lengths in ASSEMBLIES.values()}) == len(ASSEMBLIES)
    # Sums of the assembly reports: chromosomes 1-22, X and Y.
    totals = {name: sum(lengths[each] for each in nuclear) for name, lengths in ASSEMBLIES.items()}
    published = {"NCBI36": 3_080_419_480, "GRCh37": 3_095_677_412, "GRCh38": 3_088_269_832}
    assert totals == published | {"T2T-CHM13": 3_117_275_501}


@each_row(
    ("text", "found"),
    [
        *((name, {"GRCh38"}) for name in ("GRCh38", "GRCh38.p14", "hg38.fa", "GCF_000001405.40", "hs38DH", "b38")),
        *((name, {"GRCh38"}) for name in ("GRCh38DH", "hg38_p12", "hs38d1", "NCBI38", "build38", "GRCh38.d1.vd1")),
        *((name, {"GRCh38"}) for name in ("simulated, not GRCh38", "md5=6aef897c3d6ff0c78aff06ac189178dd")),
        ("file:///refs/GRCh38_full_analysis_set_plus_decoy_hla.fa", {"GRCh38"}),
        ("GCA_000001405.15_GRCh38_no_alt_analysis_set.fna", {"GRCh38"}),
        *((name, {"GRCh37"}) for name in ("grch37", "GRCh37.p13", "human_g1k_v37_decoy.fasta", "GCA_000001405.1")),
        *((name, {"GRCh37"}) for name in ("GCF_000001405.25", "b37", "hs37d5ss", "NCBI37", "NCBI Build 37.1")),
        *((name, {"GRCh37"}) for name in ("hg37", "HG19", "assembly=37", "GRCh37d5", "hg19full.fa", "GRCh37p13")),
        *((name, {"GRCh37"}) for name in ("humanG1Kv37.fasta", "NCBI_build=37", "1b22b98cdeb4a9304cb5d48026a85128")),
        ("1E86411D73E6F00A10590F976BE01623", {"GRCh37"}),
        ("ftp://ftp.1000genomes.ebi.ac.uk//vol1/ftp/technical/reference/phase2_reference/hs37d5.fa.gz", {"GRCh37"}),
        ("file:///humgen/Homo_sapiens_assembly19.fasta", {"GRCh37"}),
        *((name, {"NCBI36"}) for name in ("UCSC hg18", "NCBI build 36", "b36", "build 36.3", "NCBI36")),
        *((name, {"T2T-CHM13"}) for name in ("T2T-CHM13v2.0", "chm13v2.0_maskedY_rCRS.fa")),
        *((name, {"GRCh37", "GRCh38"}) for name in ("GRCh38 (lifted from b37)", "/lifted/hg19ToHg38.fa")),
        *((name, set()) for name in ("/ab/b37f0c/ref.fa", "build370", "hg190", "v37", "dbsnp_138", "GRCm39")),
        *((name, set()) for name in ("c68f52674c9fb33aef52dcf399755519", "myhg19x.fa", "reference.fa", "")),
    ],
)
def test_names_of_assemblies(text: str, found: set[str]) -> None:
    assert find_assemblies(text) == found


def test_lengths_tell_the_assembly_of_a_chromosome() -> None:
    assert assemblies_of_length("chr22", 51_304_566) == {"GRCh37"}
    assert assemblies_of_length("chr22", 50_818_468) == {"GRCh38"}
    assert assemblies_of_length("chrM", 16_569) == {"GRCh37", "GRCh38"}
    assert assemblies_of_length("chr22", 1) == assemblies_of_length("chrQ", 51_304_566) == frozenset()
    named = map(name_chromosome, ("22", "chr22", "MT", "NC_000022.11", "GL000192.1"))
    assert list(named) == ["chr22", "chr22", "chrM", "chr22", None]


def test_a_genome_is_of_the_assembly_that_most_of_its_lengths_are_of() -> None:
    assert assemblies_of_genome(GRCH38) == {"GRCh38"}
    assert assemblies_of_genome([GRCH38["chrM"]]) == {"GRCh37", "GRCh38"}
    old = [replace(GRCH38[name], length=ASSEMBLIES["GRCh37"][name]) for name in ("chr20", "chr21", "chrM")]
    assert assemblies_of_genome(old) == {"GRCh37"}
    # A miniature with the real chrM is of no known assembly.
    assert assemblies_of_genome([Contig("chr17", 2_000), GRCH38["chrM"]]) == {"GRCh38"}
    assert assemblies_of_genome([Contig("scaffold_1", 2_000)]) == {"GRCh38"}
