"""Headers that state the assembly of the genome, another one, or none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from genolewm_assets.errors import VcfError
from genolewm_assets.genome import GRCH38, Contig, ContigSet
from genolewm_assets.sources.vcf.assembly import check_assembly
from genolewm_assets.sources.vcf.header import parse_header
from genolewm_assets_tests.rows import each_row

GRCH37_CHR17 = ContigSet([replace(GRCH38["chr17"], length=81_195_210, md5=None)])
GRCH37_CHRM = ContigSet([replace(GRCH38["chr17"], length=81_195_210, md5=None), GRCH38["chrM"]])
TOY = ContigSet([Contig("chr17", 2_000, aliases=("17",)), replace(GRCH38["chrM"], md5=None)])
#: Header of a file that CrossMap lifted over; it keeps the reference of the source.
CROSSMAP = [
    "##reference=ftp://ftp.1000genomes.ebi.ac.uk/hs37d5.fa.gz",
    "##contig=<ID=chr17,length=83257441,assembly=hg38.fa>",
    "##liftOverProgram=CrossMap(https://sourceforge.net/projects/crossmap/)",
]


#: Keys of lines that name the assembly of the coordinates, as callers and converters write them.
GENOME_KEYS = (
    *("assembly", "Assembly", "reference", "reference_genome", "referenceAssembly", "ref", "refGenome", "genome"),
    *("genome_build", "GenomeBuild", "build", "NCBI_build", "human_genome_build", "source_GENOME_REFERENCE"),
)


def check(*lines: str, genome: ContigSet = GRCH38) -> None:
    check_assembly(parse_header(list(lines), ()), genome, where="a.vcf")


@each_row(
    "lines",
    [
        ["##reference=GRCh38", "##contig=<ID=17>"],
        ["##contig=<ID=chr1,length=248956422,assembly=GRCh38>", "##contig=<ID=chr1_KI270706v1_random,length=175055>"],
        ["##reference=GRCh38 (lifted from b37; contig header rewritten)", "##contig=<ID=17,length=83257441>"],
        # gnomAD v3.1, chrM: GRCh37 and GRCh38 have the same chrM.
        ["##contig=<ID=MT,length=16569,assembly=GRCh37>"],
        ["##reference=file:///refs/b37.fasta", "##contig=<ID=MT,length=16569,assembly=b37>"],
        [*CROSSMAP, "##new_reference_genome=/refs/hg38.fa"],
        [*CROSSMAP, "##targetRefGenome=</refs/hg38.fa>"],
        ["##reference=/data/reference.fa", "##contig=<ID=17x,length=1,assembly=in-house>"],
        # Lines on annotation, commands and the breakpoints of structural variants name other data.
        [
            '##VEP="v110" assembly="GRCh37.p13"',
            "##SnpEffCmd=SnpEff GRCh37.75 a.vcf",
            "##dbSNP_BUILD_ID=37",
            "##source=b37",
        ],
        ["##assembly=ftp://ftp-trace.ncbi.nih.gov/1000genomes/ftp/release/sv/breakpoint_assemblies.fasta"],
        ["##contig=<ID=chr1,md5=6aef897c3d6ff0c78aff06ac189178dd,URL=file:///refs/hg38.fa>"],
        ["##contig=<ID=chrM,md5=c68f52674c9fb33aef52dcf399755519>"],
        # hg19 with rCRS in the place of its chrM.
        ["##reference=hg19.fa", "##contig=<ID=chrM,length=16569>"],
        [],
    ],
)
def test_a_header_that_agrees_or_states_nothing_passes(lines: list[str]) -> None:
    check(*lines)


@each_row(
    ("lines", "message"),
    [
        (["##reference=GRCh37"], "in ##reference: expected GRCh38, got 'GRCh37'. Use the file for GRCh38, or a lift"),
        (["##reference=file:///seq/Homo_sapiens_assembly19.fasta"], "in ##reference: expected GRCh38, got 'file:"),
        (["##reference=GRCh37", "##contig=<ID=chrM,length=16569>", "##contig=<ID=chr1>"], "in ##reference"),
        (["##contig=<ID=17,assembly=b37>"], "in ##contig of '17': expected GRCh38, got 'assembly=b37'"),
        *(([f"##{key}=b37"], f"in ##{key}: expected GRCh38, got 'b37'") for key in GENOME_KEYS),
        (["##reference=hg38", "##assembly=b37"], "in ##assembly"),
        (["##reference=genome.fa", "##reference=<ID=hg19,Source=http://x>"], "in ##reference"),
        (["##genome_build=37"], "in ##genome_build: expected GRCh38, got '37'"),
        (
            ["##contig=<ID=1,md5=1b22b98cdeb4a9304cb5d48026a85128>"],
            "in ##contig of '1': expected GRCh38, got 'md5=1b22b98",
        ),
        (["##contig=<ID=1,M5=1b22b98cdeb4a9304cb5d48026a85128,assembly=GRCh38>"], "in ##contig of '1'"),
        (["##contig=<ID=1,URL=file:///refs/hs37d5.fa>"], "in ##contig of '1': expected GRCh38, got 'URL=file:"),
        (["##contig=<ID=1,Assembly=NCBI37>"], "in ##contig of '1': expected GRCh38, got 'Assembly=NCBI37'"),
        (["##contig=<ID=1,assembly=GRCh38>", "##contig=<ID=2,assembly=hg19>"], "in ##contig of '2'"),
        (["##reference=GRCh38", "##contig=<ID=17,length=83257441,assembly=GRCh37>"], "in ##contig of '17'"),
        (["##contig=<ID=chrM,length=16569,assembly=T2T-CHM13v2.0>"], "in ##contig of 'chrM'"),
        ([*CROSSMAP, "##new_reference_genome=/refs/chm13v2.0.fa"], "in ##new_reference_genome"),
        (CROSSMAP, "in ##reference"),
        (["##contig=<ID=17,length=81195210>"], "'17' the length of another assembly: expected 83257441 bp, got 8119"),
        (["##contig=<ID=22,length=51304566>"], r"expected 50818468 bp, got 51304566 bp \(GRCh37\)"),
        (["##contig=<ID=chrM,length=16571>"], "expected 16569 bp, got 16571 bp"),
    ],
)
def test_a_header_that_states_another_assembly_is_refused(lines: list[str], message: str) -> None:
    with pytest.raises(VcfError, match=rf"^a\.vcf: the header .*{message}"):
        check(*lines)


@each_row("genome", [GRCH38, ContigSet([GRCH38["chrM"]]), GRCH37_CHRM])
def test_the_chrm_of_ucscs_hg19_is_not_that_of_grch37(genome: ContigSet) -> None:
    for line in ("##reference=file:///refs/hs37d5.fa", "##reference=/hg19/human_g1k_v37.fasta", "##assembly=GRCh37"):
        check(line, "##contig=<ID=MT>", genome=genome)
    for lines in (
        ["##reference=file:///refs/ucsc.hg19.fasta", "##contig=<ID=chrM>"],
        ["##contig=<ID=chrM,assembly=hg19>"],
        ["##contig=<ID=chrM,length=16569,md5=d2ed829b8a1628d16cbeee88e88e39eb>"],
        ["##reference=RSRS.fa", "##contig=<ID=chrM,length=16569>"],
        ["##reference=NC_001807.4", "##contig=<ID=chrM>"],
    ):
        with pytest.raises(VcfError, match=r"another assembly in ##\w+.*: expected rCRS \(NC_012920\.1\)"):
            check(*lines, genome=genome)


def test_lengths_are_compared_on_contigs_that_the_genome_lacks() -> None:
    only_17 = ContigSet([GRCH38["chr17"]])
    check("##contig=<ID=chr22,length=50818468>", "##contig=<ID=chr21,length=7>", genome=only_17)
    with pytest.raises(VcfError, match=r"'chr22' .*: expected 50818468 bp, got 51304566 bp \(GRCh37\)"):
        check("##contig=<ID=chr22,length=51304566>", genome=only_17)


def test_the_assembly_expected_is_that_of_the_genome() -> None:
    check("##reference=GRCh37", "##contig=<ID=22,length=51304566>", genome=GRCH37_CHR17)
    with pytest.raises(VcfError, match=r"expected GRCh37, got 'GRCh38'\. Use the file for GRCh37"):
        check("##reference=GRCh38", genome=GRCH37_CHR17)
    # A miniature is one of GRCh38, whose contig names and rules it has.
    check("##reference=simulated, not GRCh38", "##contig=<ID=chr17,length=2000>", genome=TOY)
    with pytest.raises(VcfError, match="expected GRCh38, got 'GRCh37'"):
        check("##reference=GRCh37", "##contig=<ID=chr17,length=2000>", genome=TOY)
