from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from genolewm_assets.genome import GRCH38, Contig
from genolewm_assets.genome.assemblies import (
    ASSEMBLIES,
    assemblies_of_genome,
    assemblies_of_length,
    find_assemblies,
    name_chromosome,
)
from genolewm_assets.genome.linkage import connect
from genolewm_assets_tests.rows import each_row

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
    assert totals == {
        "NCBI36": 3_080_419_480,
        "GRCh37": 3_095_677_412,
        "GRCh38": 3_088_269_832,
        "T2T-CHM13": 3_117_275_501,
    }


@each_row(
    ("text", "found"),
    [
        ("GRCh38", {"GRCh38"}),
        ("GRCh38.p14", {"GRCh38"}),
        ("hg38.fa", {"GRCh38"}),
        ("file:///refs/GRCh38_full_analysis_set_plus_decoy_hla.fa", {"GRCh38"}),
        ("GCA_000001405.15_GRCh38_no_alt_analysis_set.fna", {"GRCh38"}),
        ("GCF_000001405.40", {"GRCh38"}),
        ("hs38DH", {"GRCh38"}),
        ("grch37", {"GRCh37"}),
        ("GRCh37.p13", {"GRCh37"}),
        ("ftp://ftp.1000genomes.ebi.ac.uk//vol1/ftp/technical/reference/phase2_reference/hs37d5.fa.gz", {"GRCh37"}),
        ("file:///humgen/Homo_sapiens_assembly19.fasta", {"GRCh37"}),
        ("human_g1k_v37_decoy.fasta", {"GRCh37"}),
        ("GCA_000001405.1", {"GRCh37"}),
        ("GCF_000001405.25", {"GRCh37"}),
        ("UCSC hg18", {"NCBI36"}),
        ("NCBI build 36", {"NCBI36"}),
        ("T2T-CHM13v2.0", {"T2T-CHM13"}),
        ("chm13v2.0_maskedY_rCRS.fa", {"T2T-CHM13"}),
        ("GRCh38 (lifted from b37)", {"GRCh37", "GRCh38"}),
        ("simulated, not GRCh38", {"GRCh38"}),
        *(
            (name, {"GRCh37"})
            for name in ("b37", "hs37d5ss", "NCBI37", "NCBI Build 37.1", "hg37", "HG19", "assembly=37")
        ),
        *(
            (name, {"GRCh37"})
            for name in ("GRCh37d5", "hg19full.fa", "humanG1Kv37.fasta", "GRCh37p13", "NCBI_build=37")
        ),
        *(
            (name, {"GRCh38"})
            for name in ("b38", "GRCh38DH", "hg38_p12", "hs38d1", "NCBI38", "build38", "GRCh38.d1.vd1")
        ),
        *((name, {"NCBI36"}) for name in ("b36", "build 36.3", "NCBI36")),
        *((digest, {"GRCh37"}) for digest in ("1b22b98cdeb4a9304cb5d48026a85128", "1E86411D73E6F00A10590F976BE01623")),
        ("md5=6aef897c3d6ff0c78aff06ac189178dd", {"GRCh38"}),
        ("c68f52674c9fb33aef52dcf399755519", set()),
        ("/lifted/hg19ToHg38.fa", {"GRCh37", "GRCh38"}),
        *((name, set()) for name in ("/ab/b37f0c/ref.fa", "build370", "hg190", "v37", "dbsnp_138")),
        ("GRCm39", set()),
        ("myhg19x.fa", set()),
        ("reference.fa", set()),
        ("", set()),
    ],
)
def test_names_of_assemblies(text: str, found: set[str]) -> None:
    assert find_assemblies(text) == found


def test_lengths_tell_the_assembly_of_a_chromosome() -> None:
    assert assemblies_of_length("chr22", 51_304_566) == {"GRCh37"}
    assert assemblies_of_length("chr22", 50_818_468) == {"GRCh38"}
    assert assemblies_of_length("chrM", 16_569) == {"GRCh37", "GRCh38"}
    assert assemblies_of_length("chr22", 1) == assemblies_of_length("chrQ", 51_304_566) == frozenset()
    assert [name_chromosome(name) for name in ("22", "chr22", "MT", "NC_000022.11", "GL000192.1")] == [
        *("chr22", "chr22", "chrM", "chr22"),
        None,
    ]


def test_a_genome_is_of_the_assembly_that_most_of_its_lengths_are_of() -> None:
    assert assemblies_of_genome(GRCH38) == {"GRCh38"}
    assert assemblies_of_genome([GRCH38["chrM"]]) == {"GRCh37", "GRCh38"}
    old = [replace(GRCH38[name], length=ASSEMBLIES["GRCh37"][name]) for name in ("chr20", "chr21", "chrM")]
    assert assemblies_of_genome(old) == {"GRCh37"}
    # A miniature with the real chrM is of no known assembly.
    assert assemblies_of_genome([Contig("chr17", 2_000), GRCH38["chrM"]]) == {"GRCh38"}
    assert assemblies_of_genome([Contig("scaffold_1", 2_000)]) == {"GRCh38"}
